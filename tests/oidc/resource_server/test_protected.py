"""Mounted applications, websockets and other places where a token may be required."""

import asyncio
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, Request, WebSocket
from starlette.responses import JSONResponse
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect

from fastapi_oidc import OIDC, AccessToken, AccessTokenError, Code, OIDCError
from fastapi_oidc.protocol.dpop import DPoPKey
from fastapi_oidc.web.api import API
from tests.oidc.resource_server.api_world import APIWorld, make_api_world


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
    answer = await world.get(await world.token("machines:write"), "/tools/anything")
    assert answer.json() == {"sub": "program", "path": "/tools/anything"}


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


async def test_a_proof_serves_the_mounted_application_too() -> None:
    world, key = make(), DPoPKey.new()
    token = await world.token("machines:write", key=key)
    proof = key.proof("GET", "https://app.test/tools/x", world.now, access_token=token)
    answer = await world.get(token, "/tools/x", scheme="DPoP", DPoP=proof)
    assert answer.json() == {"sub": "program", "path": "/tools/x"}


def test_a_websocket_takes_a_token() -> None:
    world = make()
    token = asyncio.run(world.token())
    client = TestClient(world.world.app, base_url="https://app.test")
    with client.websocket_connect(
        "/events", headers={"Authorization": f"Bearer {token}"}
    ) as socket:
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
        [("Authorization", "Basic dXNlcjpw"), ("Authorization", "Bearer {token}")],
        [("Authorization", "Bearer {token},{token}")],
        [("Authorization", "Bearer {token} {token}")],
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
    world = make()
    async with world.world.browser() as program:
        answer = await program.get("/machines", params={"access_token": await world.token()})
    assert answer.json()["code"] == Code.ACCESS_TOKEN_REQUEST
    assert "a token in the query is not read" in str(world.world.events[0].explanation)


async def test_a_first_request_without_a_token_is_no_event() -> None:
    world = make()
    await world.world.browser().get("/machines")
    assert world.world.events == []
    await world.get("dead")
    assert world.world.event_names() == ["request.refused"]
