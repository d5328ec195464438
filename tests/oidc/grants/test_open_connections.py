"""Websockets and event streams, whose response has begun, send tokens for as long as they last."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from fastapi_oidc import OIDC, Code, OIDCError
from tests.oidc.grants.api import Api, issued
from tests.oidc.grants.conftest import Session
from tests.oidc.world import World, make_world

NEARLY_EXPIRED = 250
"""Seconds after which a token of 300 is not valid for the next minute, and is not refreshed yet."""


def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    async def statuses(session: Any) -> AsyncIterator[str]:
        """One request to the API at once, and one when the token is nearly over."""
        auth = oidc.auth(session)
        for seconds in (0, NEARLY_EXPIRED):
            app.state.world.time.advance(seconds)
            try:
                yield str(await app.state.api.status(auth))
            except OIDCError as error:
                yield str(error.code)

    @app.get("/stream")
    async def stream(session: Session) -> StreamingResponse:
        async def lines() -> AsyncIterator[str]:
            async for status in statuses(session):
                yield f"{status}\n"

        return StreamingResponse(lines())


@pytest.fixture
def world(mode: str) -> World:
    world = make_world(mount=mount, session_store="memory" if mode == "store" else None)
    world.app.state.world, world.app.state.api = world, Api(world)
    return world


def expected(mode: str) -> list[str]:
    return ["200", "200" if mode == "store" else str(Code.SESSION_RESPONSE_STARTED)]


async def test_an_event_stream_refreshes_in_a_store_alone(world: World, mode: str) -> None:
    browser = await world.signed_in()
    response = await browser.get("/stream")
    assert response.text.split() == expected(mode)
    assert issued(world) == (mode == "store")
