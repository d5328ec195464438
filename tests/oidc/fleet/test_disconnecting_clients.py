"""A client that goes away during a callback or a refresh: what was begun is done, once."""

import asyncio
import threading
from dataclasses import dataclass, field

import httpx
from starlette.responses import Response

from fastapi_oidc.testing.faults import Answer
from tests.oidc.fleet.fleet import LONG_AFTER, Fleet
from tests.oidc.fleet.worker_process import PATIENCE


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


async def disconnected(browser: httpx.AsyncClient, url: str, held: Held) -> None:
    """The browser asks, and goes away while the provider's answer is on its way."""
    request = asyncio.create_task(browser.get(url))
    await until_reached(held)
    request.cancel()
    await asyncio.wait([request])
    assert request.cancelled()


async def test_a_worker_that_ends_waits_for_the_refresh_that_it_sent(fleet: Fleet) -> None:
    """Its client has gone away: no request keeps the worker from ending."""
    first, second = fleet.workers({}, {})
    async with fleet.signed_in(first) as browser:
        held = Held()
        fleet.op.faults.put("token", held)
        fleet.pass_seconds(LONG_AFTER)
        await disconnected(browser, first.at("/me"), held)
        ending = asyncio.create_task(asyncio.to_thread(first.terminate))
        await asyncio.wait([ending], timeout=1)
        assert not ending.done()
        held.opened.set()
        await ending
        answer = await browser.get(second.at("/me"))
        assert answer.json() == {"sub": "alice", "generation": 1}
    assert fleet.token_calls() == 1
