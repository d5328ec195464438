"""A Redis that is killed or mute under requests: 503 meanwhile, and nobody is signed out."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
import pytest

from tests.oidc.fleet.fleet import LONG_AFTER, Fleet
from tests.oidc.fleet.worker_process import PATIENCE, Worker
from tests.oidc.redis_topologies.servers import Server

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
