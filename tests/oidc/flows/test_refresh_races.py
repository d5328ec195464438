"""A refresh and a sign-out at the same time: the sign-out wins."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fastapi_oidc import MemorySessionStore, OIDCSession
from fastapi_oidc.testing import Delay
from tests.oidc.world import World, make_world

LONG_AFTER = 400


@pytest.fixture(params=[None, "memory"], ids=["cookie", "store"])
def world(request: pytest.FixtureRequest) -> World:
    return make_world(session_store=request.param)


async def test_signing_out_during_a_refresh_stays_signed_out(world: World) -> None:
    browser = await world.signed_in()
    async with world.browser() as other_tab:
        other_tab.cookies.update(dict(browser.cookies))
        world.op.faults.put("token", Delay(0.1))
        world.time.advance(LONG_AFTER)
        refreshing = asyncio.create_task(other_tab.get("/me"))
        await asyncio.sleep(0.03)
        await browser.post("/auth/logout", data={"local": "1"})
        assert (await refreshing).status_code == 401
        assert (await other_tab.get("/me")).status_code == 401


async def test_a_sign_out_in_another_process_is_not_undone() -> None:
    kept: set[str] = set()

    class Watched(MemorySessionStore[Any]):
        async def set(self, id: str, session: OIDCSession[Any], /) -> None:
            kept.add(id)
            await super().set(id, session)

    store = Watched()
    world = make_world(session_store=store)
    browser = await world.signed_in()
    world.op.faults.put("token", Delay(0.1))
    world.time.advance(LONG_AFTER)
    refreshing = asyncio.create_task(browser.get("/me"))
    await asyncio.sleep(0.03)
    for id in kept:
        await store.delete(id)
    assert (await refreshing).status_code == 401
    assert [await store.get(id) for id in kept] == [None]
