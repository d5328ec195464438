"""MCP servers: scopes by tool, decided before the server runs; the owner of a stateful session."""

import json
from typing import Any

import httpx
import pytest
from mcp.server.auth.middleware.bearer_auth import authorization_context

from examples.mcp.application import create_app
from fastapi_oidc import AccessToken, Clock, Code
from fastapi_oidc.testing import DevProvider, DevResource, DevUser
from fastapi_oidc.web.access_tokens import MAX_CALL_BYTES, called_tools, mcp_user
from tests.oidc.world import BASE_URL, Time, client_at, settings_of

URL = f"{BASE_URL}/mcp"
HEADERS = {"Accept": "application/json, text/event-stream"}
CALL = {"jsonrpc": "2.0", "id": 2, "method": "tools/call"}
READ = {**CALL, "params": {"name": "my_notes", "arguments": {}}}
WRITE = {**CALL, "params": {"name": "add_note", "arguments": {"text": "x"}}}
BEGIN = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


class Notes:
    """The application of the example, and two programs with tokens for it."""

    def __init__(self, *, stateless: bool) -> None:
        clock = Clock(read=Time())
        app = client_at()
        self.op = DevProvider(
            users=[DevUser("alice"), DevUser("bob")],
            clients=[app],
            resources=[DevResource(URL, ["notes:read", "notes:write"])],
            clock=clock,
        )
        settings = settings_of(app, self.op)
        transport = httpx.ASGITransport(self.op.app)
        self.app = create_app(settings, stateless=stateless, transport=transport, clock=clock)

    async def post(self, token: str, body: object, **headers: str) -> httpx.Response:
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self.op.browser(self.app, base_url="https://localhost:8000") as program:
            return await program.post(
                "/mcp",
                content=sent,
                headers={
                    **HEADERS,
                    "Content-Type": "application/json",
                    "Authorization": f"Bearer {token}",
                    **headers,
                },
            )

    def token(self, user: str = "alice", scope: str = "notes:read") -> str:
        return self.op.access_token(user, audience=URL, scope=scope)


@pytest.mark.parametrize(
    "body",
    [
        WRITE,
        [READ, WRITE],
        json.dumps(WRITE).encode() + b" " * MAX_CALL_BYTES,
        b'{"method": "tools/list", "method": "tools/call", "params": {"name": "add_note"}}',
        json.dumps(WRITE).encode("utf-16"),
    ],
)
@pytest.mark.parametrize("name", ["my_notes", "add_note"])
async def test_a_tool_needs_its_scope_before_the_server_runs(body: object, name: str) -> None:
    """What the header `Mcp-Name` says decides nothing: the server reads the body."""
    notes = Notes(stateless=True)
    async with notes.app.router.lifespan_context(notes.app):
        answer = await notes.post(notes.token(), body, **{"Mcp-Name": name})
        assert (answer.status_code, answer.json()["code"]) == (403, Code.ACCESS_TOKEN_SCOPE)
        challenge = answer.headers["www-authenticate"]
        assert 'error="insufficient_scope"' in challenge
        assert 'scope="notes:read notes:write"' in challenge


async def test_a_sufficient_token_reaches_the_tool() -> None:
    notes = Notes(stateless=True)
    async with notes.app.router.lifespan_context(notes.app):
        allowed = notes.token(scope="notes:read notes:write")
        for token, body in ((notes.token(), READ), (allowed, WRITE), (allowed, READ)):
            answer = await notes.post(token, body, **{"MCP-Protocol-Version": "2025-06-18"})
            assert answer.status_code == 200, answer.text
            assert '"isError":true' not in answer.text


async def test_the_metadata_are_mounted_too() -> None:
    notes = Notes(stateless=True)
    async with notes.op.browser(notes.app, base_url=BASE_URL) as browser:
        found = await browser.get("/.well-known/oauth-protected-resource/mcp")
    assert found.json()["scopes_supported"] == ["notes:read", "notes:write"]


async def test_a_stateful_session_belongs_to_the_user_who_began_it() -> None:
    notes = Notes(stateless=False)
    async with notes.app.router.lifespan_context(notes.app):
        alice, bob = notes.token("alice"), notes.token("bob")
        begun = await notes.post(alice, BEGIN)
        session = {"Mcp-Session-Id": begun.headers["mcp-session-id"]}
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await notes.post(bob, ready, **session)).status_code == 404
        assert (await notes.post(alice, ready, **session)).status_code == 202


@pytest.mark.parametrize(
    ("claims", "issuer"),
    [({"iss": "https://op.test/acme"}, "https://op.test/acme"), ({}, "https://op.test")],
)
def test_users_of_two_tenants_are_two_users(claims: dict[str, Any], issuer: str) -> None:
    """What a provider says of an opaque token may name no issuer."""
    token = AccessToken("https://op.test", "alice", (URL,), "app", (), (), 0, claims, value="")
    user: Any = mcp_user(token)
    assert authorization_context(user)["issuer"] == issuer


@pytest.mark.parametrize("name", ["add_notes", "renamed", "x" * 1_000_000, ""])
async def test_a_tool_that_is_not_listed_needs_the_scopes_of_all_and_is_logged(
    caplog: pytest.LogCaptureFixture, name: str
) -> None:
    notes = Notes(stateless=True)
    body = {**CALL, "params": {"name": name, "arguments": {}}}
    async with notes.app.router.lifespan_context(notes.app):
        allowed = notes.token(scope="notes:read notes:write")
        for token, status in ((notes.token(), 403), (allowed, 200)):
            assert (await notes.post(token, body)).status_code == status
    logged = [each for each in caplog.messages if f"The tool {name[:100]!r} was called" in each]
    assert len(logged) == 1
    assert "tools={...} does not have it" in logged[0]


async def test_a_request_logs_one_tool_that_is_not_listed(caplog: pytest.LogCaptureFixture) -> None:
    """The caller chooses how many there are."""
    notes = Notes(stateless=True)
    body = [{**CALL, "params": {"name": f"unknown {number}"}} for number in range(50)]
    async with notes.app.router.lifespan_context(notes.app):
        assert (await notes.post(notes.token(), body)).status_code == 403
    assert len([each for each in caplog.messages if "was called" in each]) == 1


def test_called_tools_are_read_strictly() -> None:
    calls: list[tuple[Any, Any]] = [
        (b"", frozenset()),
        (b"{}", frozenset()),
        (b"[1, null]", frozenset()),
        (json.dumps(READ).encode(), {"my_notes"}),
        (json.dumps([READ, WRITE, BEGIN]).encode(), {"my_notes", "add_note"}),
        (json.dumps({**CALL, "params": {"name": 1}}).encode(), frozenset()),
        (b"not JSON", None),
        (b'{"a": 1, "a": 2}', None),
    ]
    for body, tools in calls:
        assert called_tools(body) == tools
