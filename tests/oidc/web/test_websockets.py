"""Websockets: who may open one, and whether its session still holds."""

from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, WebSocket
from starlette.types import Message

from fastapi_oidc import OIDC, Code, OIDCSession, require_auth
from tests.oidc.world import BASE_URL, World, signed_in_world


def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.websocket("/ws")
    async def ws(
        socket: WebSocket, session: Annotated[OIDCSession[Any], Depends(require_auth)]
    ) -> None:
        await socket.accept()


async def opened(
    world: World, cookies: dict[str, str], *headers: tuple[bytes, bytes], query: bytes = b""
) -> list[Message]:
    """What the application sends to a websocket."""
    header = "; ".join(f"{name}={value}" for name, value in cookies.items())
    scope = {
        "type": "websocket",
        "asgi": {"version": "3.0"},
        "path": "/ws",
        "query_string": query,
        "extensions": {"websocket.http.response": {}},
        "headers": [(b"host", b"app.test"), (b"cookie", header.encode()), *headers],
        "subprotocols": [],
    }
    sent: list[Message] = []

    async def receive() -> Message:
        if sent:
            return {"type": "websocket.disconnect", "code": 1001}
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await world.app(scope, receive, send)
    return sent


@pytest.mark.parametrize("origin", [BASE_URL, "https://chat.example.com", None])
async def test_the_applications_own_pages_and_trusted_ones_open_it(origin: str | None) -> None:
    world, browser = await signed_in_world(
        mount=mount, settings={"trusted_origins": ["https://chat.example.com"]}
    )
    headers = [] if origin is None else [(b"origin", origin.encode())]
    accept, *_ = await opened(world, dict(browser.cookies), *headers)
    assert accept["type"] == "websocket.accept"


@pytest.mark.parametrize(
    "origin", ["https://evil.test", "null", "", "http://app.test", "https://app.test.evil.test"]
)
async def test_another_origins_page_does_not(origin: str, caplog: pytest.LogCaptureFixture) -> None:
    """The log has no query, which may be no text, and may have a token."""
    world, browser = await signed_in_world(mount=mount)
    foreign = (b"origin", origin.encode())
    (close,) = await opened(world, dict(browser.cookies), foreign, query=b"\x80")
    assert (close["type"], close["code"]) == ("websocket.close", 1008)
    assert world.events[-1].code == "session.cross_site"
    assert "://app.test/ws)" in caplog.text


async def test_one_without_a_session_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    """Its client learns no cause."""
    world, _ = await signed_in_world(mount=mount)
    (close,) = await opened(world, {})
    assert (close["type"], close["code"]) == ("websocket.close", 1008)
    assert f"see='{Code.SESSION_REQUIRED.link}'" in caplog.text


async def test_a_guard_after_the_acceptance_closes_it() -> None:
    """RFC 6455 7.4.1: 1008 is a violation of a policy."""

    def mount_late(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.websocket("/ws")
        async def ws(socket: WebSocket) -> None:
            await socket.accept()
            await oidc.require_auth(socket)

    world, _ = await signed_in_world(mount=mount_late)
    accept, close = await opened(world, {})
    assert (accept["type"], close["type"]) == ("websocket.accept", "websocket.close")
    assert close["code"] == 1008


@pytest.mark.parametrize(
    "method", ["get_session", "locals", "refresh", "is_still_signed_in", "clear_session"]
)
async def test_a_page_of_another_origin_uses_no_session(method: str) -> None:
    def mount_asking(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.websocket("/ws")
        async def ws(socket: WebSocket) -> None:
            assert socket.state.oidc.session is None
            await getattr(oidc, method)(socket)

    world, browser = await signed_in_world(mount=mount_asking)
    (close,) = await opened(world, dict(browser.cookies), (b"origin", b"https://evil.test"))
    assert close["type"] == "websocket.close"
    assert world.events[-1].code == "session.cross_site"
    assert (await browser.get("/me")).status_code == 200
