"""A Redis that is killed or mute: 503 meanwhile, in bounded time, and nobody is signed out."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
import pytest

from tests.oidc.fleet.fleet import LONG_AFTER, ONE_PAUSE, Fleet
from tests.oidc.fleet.test_disconnecting_clients import Held, until_reached
from tests.oidc.fleet.worker_process import PATIENCE, Worker

STREAMS = 2
"""Requests under way at each worker."""

SECONDS_FOR_ONE_ANSWER = 0.5
"""Of Redis, as the URL says (`socket_timeout`); a command is sent twice at the most."""

MORE = 10
"""Requests after the first one that Redis did not answer, of which few wait for it."""


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
        """The newest answer to a request is this one."""

        def is_answered() -> bool:
            return bool(self.answers) and self.answers[-1].status_code == status

        await self._until(is_answered)

    async def _until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE), self.news:
            await self.news.wait_for(holds)


@asynccontextmanager
async def under_way(browser: httpx.AsyncClient, *workers: Worker) -> AsyncIterator[list[Requests]]:
    """Several at each worker; each stream fails the test when it fails."""
    streams = [Requests(browser, worker) for worker in workers for _ in range(STREAMS)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(stream.run()) for stream in streams]
        yield streams
        for task in tasks:
            task.cancel()


async def served(browser: httpx.AsyncClient, worker: Worker) -> httpx.Response:
    """The first answer that is no 503; until then one request at a time asks Redis."""
    async with asyncio.timeout(PATIENCE):
        while True:
            answer = await browser.get(worker.at("/me"))
            if answer.status_code != 503:
                return answer
            await asyncio.sleep(0.05)


def assert_nobody_signed_out(streams: list[Requests]) -> None:
    for answer in [answer for stream in streams for answer in stream.answers]:
        assert "set-cookie" not in answer.headers
        assert answer.status_code in (200, 503)
        if answer.status_code == 503:
            assert int(answer.headers["retry-after"]) > 0


async def test_a_redis_killed_and_restarted_under_requests_signs_nobody_out(fleet: Fleet) -> None:
    first, second = fleet.workers({}, {})
    async with fleet.signed_in(first) as browser:
        async with under_way(browser, first, second) as streams:
            for wanted, change in ((200, fleet.redis.kill), (503, fleet.redis.start)):
                await asyncio.gather(*(stream.until_answered(wanted) for stream in streams))
                await asyncio.to_thread(change)
            await asyncio.gather(*(stream.until_answered(200) for stream in streams))
        assert_nobody_signed_out(streams)
        fleet.pass_seconds(LONG_AFTER)
        for worker in (second, first):
            assert (await browser.get(worker.at("/me"))).json()["generation"] == 1
    assert fleet.token_calls() == 1


async def test_a_mute_redis_costs_each_worker_a_bounded_wait(fleet: Fleet) -> None:
    fleet.mode = "cookie"
    fleet.redis_options = {"socket_timeout": SECONDS_FOR_ONE_ANSWER}
    workers = fleet.workers({}, {})
    async with fleet.signed_in(workers[0]) as browser:
        await browser.get(workers[1].at("/me"))
        fleet.redis.mute()
        for worker in workers:
            first, *others = [await unserved(browser, worker) for _ in range(1 + MORE)]
            assert SECONDS_FOR_ONE_ANSWER <= first < PATIENCE / 2
            assert sum(others) < MORE * 2 * SECONDS_FOR_ONE_ANSWER
        fleet.redis.unmute()
        for worker in workers:
            answer = await served(browser, worker)
            assert answer.json() == {"sub": "alice", "generation": 0}


async def unserved(browser: httpx.AsyncClient, worker: Worker) -> float:
    """The seconds that a request waits for its 503."""
    began = time.monotonic()
    answer = await browser.get(worker.at("/me"))
    assert (answer.status_code, "set-cookie" in answer.headers) == (503, False)
    assert int(answer.headers["retry-after"]) > 0
    return time.monotonic() - began


async def test_a_redis_that_is_mute_when_the_successor_is_to_be_saved_loses_no_session(
    fleet: Fleet,
) -> None:
    """The provider has answered the refresh: its refresh token is used up."""
    fleet.redis_options = {"socket_timeout": SECONDS_FOR_ONE_ANSWER}
    first, second = fleet.workers({}, {})
    async with fleet.signed_in(first) as browser:
        fleet.op.faults.put("userinfo", held := Held())
        fleet.pass_seconds(LONG_AFTER)
        request = asyncio.create_task(browser.get(first.at("/me")))
        await until_reached(held)
        assert fleet.token_calls() == 1
        fleet.redis.mute()
        held.opened.set()
        answer = await request
        assert (answer.status_code, "set-cookie" in answer.headers) == (503, False)
        assert int(answer.headers["retry-after"]) > 0
        fleet.redis.unmute()
        fleet.pass_seconds(ONE_PAUSE)
        for worker in (second, first):
            answer = await served(browser, worker)
            assert answer.json() == {"sub": "alice", "generation": 1}
    assert fleet.token_calls() == 1


async def is_refused(browser: httpx.AsyncClient, worker: Worker) -> bool:
    answer = await browser.get(worker.at("/me"))
    assert answer.status_code in (200, 401)
    return answer.status_code == 401


async def until_refused(browser: httpx.AsyncClient, worker: Worker) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await is_refused(browser, worker):  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("ends", [False, True])
async def test_a_sign_out_while_redis_is_gone_holds_here_at_once_and_soon_everywhere(
    fleet: Fleet, ends: bool
) -> None:
    """A worker that ends tells Redis of it before."""
    fleet.mode = "cookie"
    first, second = fleet.workers({}, {})
    async with fleet.signed_in(first) as browser:
        stolen = dict(browser.cookies)
        fleet.redis.kill()
        await browser.post(first.at("/auth/logout"), data={"local": "1"})
        fleet.redis.start()
        if ends:
            await asyncio.to_thread(first.terminate)
        browser.cookies.update(stolen)
        assert await is_refused(browser, second if ends else first)
        await until_refused(browser, second)
