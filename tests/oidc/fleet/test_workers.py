"""A worker that is killed, or ends, in the middle of a refresh: which sessions that costs."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
import pytest
from starlette.responses import Response

from fastapi_oidc.testing.faults import Answer
from tests.oidc.fleet.fleet import LONG_AFTER, Fleet
from tests.oidc.fleet.worker_process import PATIENCE, Worker
from tests.oidc.redis_topologies.servers import Server

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


STREAMS = 2
"""Requests under way at each worker."""


@dataclass(slots=True)
class Requests:
    """Requests of one browser to one worker, one after the other, until they are to end."""

    browser: httpx.AsyncClient
    worker: Worker
    answers: list[httpx.Response] = field(default_factory=list)
    news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def run(self) -> None:
        while True:
            answer = await self.browser.get(self.worker.at("/me"))
            async with self.news:
                self.answers.append(answer)
                self.news.notify_all()

    async def until_answered(self, status: int) -> None:
        """An answer that comes from now on is this one."""
        known = len(self.answers)
        async with asyncio.timeout(PATIENCE), self.news:
            await self.news.wait_for(
                lambda: status in [answer.status_code for answer in self.answers[known:]]
            )


async def until_all(streams: list[Requests], status: int) -> None:
    await asyncio.gather(*(stream.until_answered(status) for stream in streams))


@asynccontextmanager
async def under_way(browser: httpx.AsyncClient, *workers: Worker) -> AsyncIterator[list[Requests]]:
    """Several at each worker; each stream fails the test when it fails."""
    streams = [Requests(browser, worker) for worker in workers for _ in range(STREAMS)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(stream.run()) for stream in streams]
        yield streams
        for task in tasks:
            task.cancel()


async def assert_nobody_is_signed_out(
    browser: httpx.AsyncClient, workers: list[Worker], *changes: Callable[[], object]
) -> None:
    """By changes of Redis under requests, the last of which heals it; each other one is noticed."""
    async with under_way(browser, *workers) as streams:
        for status, change in zip([200, 503], changes, strict=False):
            await until_all(streams, status)
            await asyncio.to_thread(change)
        await until_all(streams, 200)
    for answer in [answer for stream in streams for answer in stream.answers]:
        assert "set-cookie" not in answer.headers
        assert answer.status_code in (200, 503)
        if answer.status_code == 503:
            assert int(answer.headers["retry-after"]) > 0


async def assert_refreshed_once(
    fleet: Fleet, browser: httpx.AsyncClient, workers: list[Worker]
) -> None:
    fleet.pass_seconds(LONG_AFTER)
    for worker in reversed(workers):
        assert (await served(browser, worker)).json()["generation"] == 1
    assert fleet.token_calls() == 1


async def served(browser: httpx.AsyncClient, worker: Worker) -> httpx.Response:
    """The first answer that is no 503; until then one request at a time asks Redis."""
    async with asyncio.timeout(PATIENCE):
        while (answer := await browser.get(worker.at("/me"))).status_code == 503:
            pass
    return answer


@pytest.mark.parametrize(
    ("mode", "ends", "heals"),
    [("store", Server.kill, Server.start), ("cookie", Server.mute, Server.unmute)],
    ids=["killed", "mute"],
)
async def test_a_redis_that_fails_under_requests_signs_nobody_out(
    fleet: Fleet, mode: str, ends: Callable[[Server], None], heals: Callable[[Server], None]
) -> None:
    fleet.mode, fleet.redis_at = mode, f"{fleet.redis_at}?socket_timeout=1"
    workers = fleet.workers({}, {})
    async with fleet.signed_in(workers[0]) as browser:
        await assert_nobody_is_signed_out(
            browser, workers, lambda: ends(fleet.redis), lambda: heals(fleet.redis)
        )
        await assert_refreshed_once(fleet, browser, workers)
