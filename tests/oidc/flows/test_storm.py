"""Many sessions expire at once: one token call each, a bounded number at a time, nobody is out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.responses import Response

from fastapi_oidc import Clock, MemoryRefreshLock, MemoryRevocationStore, MemorySessionStore
from fastapi_oidc.flows.refresher import IN_FLIGHT
from tests.oidc.flows.test_refresh import LONG_AFTER, generation, refreshes
from tests.oidc.interleaving import another_process, same_browser
from tests.oidc.world import Time, make_world

SESSIONS, REQUESTS = 80, 4


class Counted:
    """A fault that lets every answer through, and counts those under way."""

    def __init__(self) -> None:
        self.under_way = self.most = 0

    async def happen(self, answer: Callable[[], Awaitable[Response]]) -> Response:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        for _ in range(20):
            await asyncio.sleep(0)
        self.under_way -= 1
        return await answer()


@pytest.mark.parametrize("mode", ["cookie", "store", "store and lock, two processes"])
async def test_each_session_is_refreshed_once(mode: str) -> None:
    time = Time()
    clock = Clock(read=time)
    shared: dict[str, Any] = {"back_channel_logout_store": MemoryRevocationStore(clock=clock)}
    if mode != "cookie":
        shared["session_store"] = MemorySessionStore[Any](clock=clock)
    worlds = [make_world(time=time, **shared)]
    if "two processes" in mode:
        shared["refresh_lock"] = MemoryRefreshLock(clock=clock)
        worlds = [make_world(time=time, **shared)]
        worlds.append(another_process(worlds[0], **shared))
    browsers = [await worlds[0].signed_in() for _ in range(SESSIONS)]
    counted = Counted()
    worlds[0].op.faults.put("token", counted, times=10 * SESSIONS)
    time.advance(LONG_AFTER)
    tabs = [
        same_browser(browser, worlds[turn % len(worlds)])
        for browser in browsers
        for turn in range(REQUESTS)
    ]
    assert set(await asyncio.gather(*map(generation, tabs))) == {1}
    assert refreshes(worlds[0]) == SESSIONS
    assert 1 < counted.most <= IN_FLIGHT * len(worlds)
