"""A worker that is killed, or ends, in the middle of a refresh: which sessions that costs."""

import asyncio
import threading
from dataclasses import dataclass, field

import httpx
import pytest
from starlette.responses import Response

from fastapi_oidc.testing.faults import Answer
from tests.oidc.fleet.fleet import LONG_AFTER, Fleet
from tests.oidc.fleet.worker_process import PATIENCE, Worker

BEFORE_THE_END, MARGIN = 200, 140
"""Seconds after a sign-in when an access token (300 s) is to be refreshed, and for how long it is
valid then: a busy machine needs some of them."""


@dataclass(slots=True)
class Held:
    """The provider works, and its answer comes when the test says so; it runs in a thread."""

    reached: threading.Event = field(default_factory=threading.Event)
    opened: threading.Event = field(default_factory=threading.Event)

    async def happen(self, answer: Answer) -> Response:
        response = await answer()
        self.reached.set()
        await asyncio.to_thread(self.opened.wait, PATIENCE)
        return response


class Unread(Held):
    """The provider has the request, and does not do what it asks for."""

    async def happen(self, answer: Answer) -> Response:
        self.reached.set()
        await asyncio.to_thread(self.opened.wait, PATIENCE)
        return Response(status_code=503)


async def until_reached(held: Held) -> None:
    assert await asyncio.to_thread(held.reached.wait, PATIENCE)


async def test_workers_killed_in_a_refresh_cost_the_session_of_a_lost_answer(fleet: Fleet) -> None:
    """The provider has used up alice's refresh token, and its answer has reached a worker that
    keeps it no more; that for dave is kept. What it was asked for bob it does not do. Carol asks
    later."""
    fleet.settings["refresh_margin"] = MARGIN
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


async def test_a_worker_that_ends_waits_for_the_refresh_that_it_sent(fleet: Fleet) -> None:
    """Its client has gone away: no request keeps the worker from ending."""
    first, second = fleet.workers({}, {})
    async with fleet.signed_in(first) as browser:
        held = Held()
        fleet.pass_seconds(LONG_AFTER)
        request = await presented(fleet, browser, first, held)
        request.cancel()
        await asyncio.wait([request])
        ending = asyncio.create_task(asyncio.to_thread(first.terminate))
        await asyncio.wait([ending], timeout=1)
        assert not ending.done()
        held.opened.set()
        await ending
        answer = await browser.get(second.at("/me"))
        assert answer.json() == {"sub": "alice", "generation": 1}
    assert fleet.token_calls() == 1
