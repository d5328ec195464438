"""What is missing is told when the application starts, in three lines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from fastapi import FastAPI
from starlette.types import ASGIApp, Message

from fastapi_oidc import OIDC, OIDCMiddleware
from tests.oidc.world import make_world


async def start(app: ASGIApp) -> list[str]:
    """The types of what the application says to its server."""
    received = iter(["lifespan.startup", "lifespan.shutdown"])
    sent: list[str] = []

    async def receive() -> Message:
        return {"type": next(received)}

    async def send(message: Message) -> None:
        sent.append(message["type"])

    await app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, send)
    return sent


def an_instance() -> OIDC[object, object]:
    return make_world().oidc


async def test_what_is_complete_starts_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    world = make_world()
    assert await start(world.app) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert caplog.messages == []


async def test_a_missing_middleware_is_three_lines(caplog: pytest.LogCaptureFixture) -> None:
    app = FastAPI()
    app.include_router(an_instance().router, prefix="/auth")
    await start(app)
    (message,) = caplog.messages
    assert message.splitlines()[-1] == (
        "Add the line: app.add_middleware(OIDCMiddleware, oidc=oidc)"
    )
    assert len(message.splitlines()) == 3


async def test_missing_routes_are_three_lines(caplog: pytest.LogCaptureFixture) -> None:
    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=an_instance())
    await start(app)
    (message,) = caplog.messages
    first, _, last = message.splitlines()
    assert first == "OIDC instance 'oidc' has no route for: login, callback."
    assert last == "Add the line: app.include_router(oidc.router, prefix='/auth')"


async def test_routes_that_are_mounted_during_the_start_are_found(
    caplog: pytest.LogCaptureFixture,
) -> None:
    oidc = an_instance()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.include_router(oidc.router, prefix="/auth")
        yield

    app = FastAPI(lifespan=lifespan)
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    await start(app)
    assert caplog.messages == []


async def test_an_application_inside_another_does_not_trouble_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outer = FastAPI()
    outer.mount("/shop", make_world().app)
    await start(outer)
    assert caplog.messages == []
