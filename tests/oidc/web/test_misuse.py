"""What an application does at the wrong time or place is named, and gives no session away."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fastapi import FastAPI, Request, WebSocket

from fastapi_oidc import OIDC, Code, ConfigurationError, OIDCError, OIDCMiddleware
from tests.oidc.web.test_websockets import opened
from tests.oidc.world import BASE_URL, make_world, signed_in_world


async def test_a_task_that_outlives_its_request_is_told_so() -> None:
    tasks: list[asyncio.Task[object]] = []
    responded = asyncio.Event()

    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.get("/begin")
        async def begin(request: Request) -> None:
            async def later() -> object:
                await responded.wait()
                return await oidc.get_session(request)

            tasks.append(asyncio.create_task(later()))

    browser = await make_world(mount=mount).signed_in()
    await browser.get("/begin")
    responded.set()
    with pytest.raises(ConfigurationError, match="this request has ended") as caught:
        await tasks[0]
    assert caught.value.code is Code.CONFIGURATION_INVALID


@pytest.mark.parametrize("how", ["get_session", "locals", "refresh", "is_still_signed_in"])
@pytest.mark.parametrize("origin", ["https://other.app.test", BASE_URL])
async def test_a_websocket_of_another_origin_gets_no_session_in_any_way(
    how: str, origin: str
) -> None:
    seen: list[object] = []

    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        ask: Any = {
            "get_session": oidc.get_session,
            "locals": oidc.locals,
            "refresh": oidc.refresh,
            "is_still_signed_in": oidc.is_still_signed_in,
        }[how]

        @app.websocket("/ws")
        async def ws(socket: WebSocket) -> None:
            seen.append(socket.state.oidc.session)
            try:
                seen.append(await ask(socket))
            except OIDCError as error:
                seen.append(error.code)

    world, browser = await signed_in_world(mount=mount)
    await opened(world, dict(browser.cookies), (b"origin", origin.encode()))
    if origin == BASE_URL:
        assert seen[0] is not None
        assert seen[1]
    else:
        assert seen == [None, Code.SESSION_CROSS_SITE]


def test_another_event_loop_than_asyncio_is_named() -> None:
    """A coroutine that is run by hand has no event loop of asyncio, as under trio."""
    world = make_world()
    scope = {"type": "http", "app": world.app, "path": "/", "headers": []}

    async def nothing(*_: object) -> Any: ...

    request = OIDCMiddleware(world.app.router, oidc=world.oidc)(scope, nothing, nothing)
    with pytest.raises(ConfigurationError, match="supports asyncio only"):
        request.send(None)
