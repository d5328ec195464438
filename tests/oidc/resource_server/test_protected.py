"""Mounted applications, websockets, MCP servers and other places where a token may be required."""

import asyncio
import json
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Depends, FastAPI, Request, WebSocket
from mcp.server.auth.middleware.bearer_auth import authorization_context
from starlette.responses import JSONResponse
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect

from examples.mcp.application import create_app
from fastapi_oidc import OIDC, AccessToken, AccessTokenError, Clock, Code, OIDCError
from fastapi_oidc.protocol.dpop import DPoPKey
from fastapi_oidc.testing import DevProvider, DevResource, DevUser
from fastapi_oidc.web.access_tokens import MAX_CALL_BYTES, called_tools, mcp_user
from fastapi_oidc.web.api import API
from tests.oidc.resource_server.api_world import APIWorld, make_api_world
from tests.oidc.world import BASE_URL, Time, client_at, settings_of


async def mounted_app(scope: Scope, receive: Receive, send: Send) -> None:
    """An ASGI application that is not FastAPI's."""
    assert scope["type"] == "http"
    token = await TOKEN_OF[0].access_token(Request(scope))
    await JSONResponse({"sub": token.sub, "path": scope["path"]})(scope, receive, send)


TOKEN_OF: list[API[Any]] = []


def mount(app: FastAPI, oidc: OIDC[Any, Any], api: API[Any]) -> None:
    TOKEN_OF[:] = [api]
    app.mount("/tools", api.protected(mounted_app, "machines:write"))

    @app.websocket("/events")
    async def events(
        socket: WebSocket, token: Annotated[AccessToken, Depends(api.require("machines:read"))]
    ) -> None:
        await socket.accept()
        await socket.send_text(token.sub)
        await socket.close()


def make() -> APIWorld:
    return make_api_world(mount=mount)


async def test_a_mounted_application_has_the_token_of_its_request() -> None:
    world = make()
    key = DPoPKey.new()
    bearer, bound = (
        await world.token("machines:write"),
        await world.token("machines:write", key=key),
    )
    proof = key.proof("GET", "https://app.test/tools/x", world.now, access_token=bound)
    for answer in (
        await world.get(bearer, "/tools/x"),
        await world.get(bound, "/tools/x", scheme="DPoP", DPoP=proof),
    ):
        assert answer.json() == {"sub": "program", "path": "/tools/x"}


@pytest.mark.parametrize(
    ("token", "status", "error"),
    [
        (None, 401, 'Bearer realm="oidc", scope="machines:write", resource'),
        ("dead", 401, 'Bearer realm="oidc", error="invalid_token"'),
        ("", 400, 'Bearer realm="oidc", error="invalid_request"'),
        ("machines:read", 403, 'Bearer realm="oidc", error="insufficient_scope"'),
    ],
)
async def test_nobody_else_reaches_a_mount(token: str | None, status: int, error: str) -> None:
    world = make()
    sent = await world.token(token) if token == "machines:read" else token
    async with world.world.browser() as program:
        headers = {} if sent is None else {"Authorization": f"Bearer {sent}"}
        answer = await program.get("/tools/", headers=headers)
    assert answer.status_code == status
    assert answer.headers["www-authenticate"].startswith(error)
    assert 'scope="machines:write"' in answer.headers["www-authenticate"]
    assert set(answer.json()) == {"detail", "code"}


def test_a_websocket_takes_a_token() -> None:
    world = make()
    token = asyncio.run(world.token())
    client = TestClient(world.world.app, base_url="https://app.test")
    headers = {"Authorization": f"Bearer {token}"}
    with client.websocket_connect("/events", headers=headers) as socket:
        assert socket.receive_text() == "program"
    with (
        pytest.raises(WebSocketDisconnect) as refused,
        client.websocket_connect("/events", headers={"Authorization": "Bearer dead"}),
    ):
        pass
    assert refused.value.code == 1008


def test_a_websocket_that_may_call_any_tool_needs_the_scopes_of_all() -> None:
    async def server(scope: Scope, receive: Receive, send: Send) -> None:
        socket = WebSocket(scope, receive, send)
        await socket.accept()
        await socket.send_text("ready")
        await socket.close()

    def mount_server(app: FastAPI, oidc: OIDC[Any, Any], api: API[Any]) -> None:
        guarded = api.protected(server, "machines:read", tools={"delete": "machines:write"})
        app.mount("/server", guarded)

    world = make_api_world(mount=mount_server)
    client = TestClient(world.world.app, base_url="https://app.test")
    for scope in ("machines:read machines:write", "machines:read"):
        headers = {"Authorization": f"Bearer {asyncio.run(world.token(scope))}"}
        opening = client.websocket_connect("/server/", headers=headers)
        if "write" in scope:
            with opening as socket:
                assert socket.receive_text() == "ready"
        else:
            with pytest.raises(WebSocketDisconnect), opening:
                raise AssertionError("it was accepted")


def test_a_token_that_expires_while_a_websocket_is_open_is_refused_when_it_is_asked_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its client had one when the socket was accepted, so nothing is advised."""

    def mount_ticks(app: FastAPI, oidc: OIDC[Any, Any], api: API[Any]) -> None:
        @app.websocket("/ticks")
        async def ticks(socket: WebSocket) -> None:
            await api.access_token(socket)
            await socket.accept()
            for _ in range(2):
                world.world.time.advance(290)
                try:
                    await socket.send_text((await api.access_token(socket)).sub)
                except AccessTokenError as error:
                    await socket.send_text(error.code)
            await api.access_token(socket)

    world = make_api_world(mount=mount_ticks)
    headers = {"Authorization": f"Bearer {asyncio.run(world.token())}"}
    client = TestClient(world.world.app, base_url="https://app.test")
    with client.websocket_connect("/ticks", headers=headers) as socket:
        assert [socket.receive_text() for _ in range(2)] == ["program", "access_token.expired"]
        assert socket.receive() == {"type": "websocket.close", "code": 1008, "reason": ""}
    assert "accept()" not in caplog.text


async def test_an_application_may_answer_refusals_itself() -> None:
    world = make()

    @world.world.app.exception_handler(OIDCError)
    async def answer(_request: Request, error: AccessTokenError) -> JSONResponse:
        return JSONResponse({"own": error.code}, error.status, {"X-Was": error.challenge})

    answered = await world.get("dead", "/tools/")
    assert (answered.status_code, answered.json()) == (401, {"own": "jws.malformed"})
    assert answered.headers["X-Was"].startswith("Bearer ")


@pytest.mark.parametrize(
    "headers",
    [
        [("Authorization", "Bearer {token}"), ("Authorization", "Bearer {token}")],
        [("Authorization", "Bearer {token},{token}")],
        [("Authorization", 'Bearer "{token}"')],
    ],
)
async def test_a_malformed_request_is_refused(headers: list[tuple[str, str]]) -> None:
    world = make()
    token = await world.token()
    async with world.world.browser() as program:
        sent = [(name, value.format(token=token)) for name, value in headers]
        answer = await program.get("/machines", headers=sent)
    assert (answer.status_code, answer.json()["code"]) == (400, Code.ACCESS_TOKEN_REQUEST)


async def test_a_token_in_the_query_is_not_read() -> None:
    """RFC 9700 4.3.2."""
    world = make()
    async with world.world.browser() as program:
        answer = await program.get("/machines", params={"access_token": await world.token()})
    assert answer.json()["code"] == Code.ACCESS_TOKEN_REQUIRED


async def test_a_first_request_without_a_token_is_no_event() -> None:
    world = make()
    await world.world.browser().get("/machines")
    assert world.world.events == []
    await world.get("dead")
    assert world.world.event_names() == ["request.refused"]


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


@pytest.mark.parametrize("name", ["add_notes", ""])
async def test_a_tool_that_is_not_listed_needs_the_scopes_of_all(name: str) -> None:
    notes = Notes(stateless=True)
    body = {**CALL, "params": {"name": name, "arguments": {}}}
    async with notes.app.router.lifespan_context(notes.app):
        allowed = notes.token(scope="notes:read notes:write")
        for token, status in ((notes.token(), 403), (allowed, 200)):
            assert (await notes.post(token, body)).status_code == status


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
