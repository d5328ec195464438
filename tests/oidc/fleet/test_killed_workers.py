"""A worker that is killed in the middle of a refresh: which sessions that costs, and which not."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.oidc.fleet.fleet import BEFORE_THE_END, LONG_AFTER, Fleet
from tests.oidc.fleet.test_disconnecting_clients import Held, Unread, until_reached
from tests.oidc.fleet.worker_process import Worker

PROVIDER_TIMEOUT = 4


async def test_workers_killed_in_a_refresh_cost_the_session_whose_answer_nobody_kept(
    fleet: Fleet,
) -> None:
    """The provider has used up alice's refresh token, and its answer has reached a worker that
    keeps it no more; that for dave is kept. What it was asked for bob it does not do. Carol asks
    later."""
    fleet.settings["provider_timeout"] = PROVIDER_TIMEOUT
    killed, keeping, other = fleet.workers({}, {"holds": True}, {})
    async with (
        fleet.signed_in(killed) as alice,
        fleet.signed_in(killed, "bob") as bob,
        fleet.signed_in(killed, "carol") as carol,
        fleet.signed_in(keeping, "dave") as dave,
    ):
        fleet.pass_seconds(BEFORE_THE_END)
        used, unread = Held(), Unread()
        lost = [
            await presented(fleet, browser, killed, held)
            for browser, held in ((alice, used), (bob, unread))
        ]
        lost.append(asyncio.create_task(dave.get(keeping.at("/me"))))
        await keeping.until_held()
        killed.stop()
        used.opened.set()
        for worker in (killed, keeping):
            worker.kill()
        for request in lost:
            with pytest.raises(httpx.TransportError):
                await request

        pages = [browser.get(other.at("/me")) for browser in (alice, bob)]
        assert [page.json()["generation"] for page in await asyncio.gather(*pages)] == [0, 0]
        fleet.pass_seconds(LONG_AFTER - BEFORE_THE_END)
        assert (await carol.get(other.at("/me"))).json()["generation"] == 1
        assert (await alice.get(other.at("/me"))).status_code == 401, "after the end of the lease"
        for browser in (bob, dave):
            assert (await browser.get(other.at("/me"))).json()["generation"] == 1
        unread.opened.set()
    assert fleet.token_calls() == 4


async def presented(
    fleet: Fleet, browser: httpx.AsyncClient, worker: Worker, held: Held
) -> asyncio.Task[httpx.Response]:
    """A request for which the provider has the refresh token, and holds its answer."""
    fleet.op.faults.put("token", held)
    request = asyncio.create_task(browser.get(worker.at("/me")))
    await until_reached(held)
    return request
