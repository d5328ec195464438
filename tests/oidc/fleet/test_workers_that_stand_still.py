"""A worker that stands still while the provider has a refresh token from it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx

from tests.oidc.fleet.fleet import LONG_AFTER, Fleet
from tests.oidc.fleet.test_disconnecting_clients import Held, until_reached
from tests.oidc.fleet.worker_process import Worker

SHORT = 2.0
"""Seconds of a pause that is shorter than a lease."""


@dataclass(slots=True)
class Pause:
    """`request` waits for the worker that stands still, and `asked` for the other one."""

    standing: Worker
    held: Held
    request: asyncio.Task[httpx.Response]
    asked: asyncio.Task[httpx.Response]

    def go_on(self) -> None:
        self.held.opened.set()
        self.standing.go_on()


@asynccontextmanager
async def paused(fleet: Fleet) -> AsyncIterator[Pause]:
    standing, other = fleet.workers({}, {})
    async with fleet.signed_in(standing) as browser, fleet.browser() as same:
        same.cookies.update(browser.cookies)
        fleet.op.faults.put("token", held := Held())
        fleet.pass_seconds(LONG_AFTER)
        request = asyncio.create_task(browser.get(standing.at("/me")))
        await until_reached(held)
        standing.stop()
        yield Pause(standing, held, request, asyncio.create_task(same.get(other.at("/me"))))


async def test_within_its_lease_its_refresh_token_is_not_presented_by_another_one(
    fleet: Fleet,
) -> None:
    fleet.mode = "cookie"
    async with paused(fleet) as pause:
        assert not (await asyncio.wait([pause.asked], timeout=SHORT))[0]
        pause.go_on()
        for answer in await asyncio.gather(pause.request, pause.asked):
            assert answer.json() == {"sub": "alice", "generation": 1}
    assert fleet.token_calls() == 1


async def test_after_its_lease_another_one_presents_it_again(fleet: Fleet) -> None:
    """The provider had used it, and its tokens work once."""
    async with paused(fleet) as pause:
        assert (await pause.asked).status_code == 401
        pause.go_on()
        assert (await pause.request).status_code == 401
    assert fleet.token_calls() == 1
