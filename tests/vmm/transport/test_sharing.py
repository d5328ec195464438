"""Threads and tasks that share one channel take turns, and each gets its own answer."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from generated_vmm.errors import VmmTimeoutError
from generated_vmm.transport import AsyncUnixChannel, HttpAnswer, UnixChannel
from tests.vmm.forking import echo
from tests.vmm.scripted import OK, Wire, answer
from tests.vmm.transport.conftest import Serve, fails, request

CALLS = 200
HELD = r"^another call did not end$"


@asynccontextmanager
async def closed(channel: AsyncUnixChannel) -> AsyncIterator[AsyncUnixChannel]:
    yield channel
    await channel.close()


def slow_echo(wire: Wire) -> None:
    """The same, so slowly that the next call has to wait for its turn."""
    while wire.request():
        time.sleep(0.005)
        wire.send(answer(200, wire.latest.split(b" ")[1]))


def test_threads_get_their_own_answers(serve: Serve, socket_path: Path) -> None:
    serve(echo)
    paths = [f"/{number}" for number in range(CALLS)]
    with closing(UnixChannel(str(socket_path))) as channel, ThreadPoolExecutor(8) as threads:
        answers = threads.map(
            lambda path: channel.exchange(request(path=path), None).content, paths
        )
        assert list(answers) == [path.encode() for path in paths]


async def test_tasks_get_their_own_answers(serve: Serve, socket_path: Path) -> None:
    serve(echo)
    async with closed(AsyncUnixChannel(str(socket_path))) as channel:

        async def call(path: str) -> bytes:
            return (await channel.exchange(request(path=path), None)).content

        paths = [f"/{number}" for number in range(CALLS)]
        assert await asyncio.gather(*map(call, paths)) == [path.encode() for path in paths]


async def test_cancelled_calls_leave_nothing_for_the_others(
    serve: Serve, socket_path: Path
) -> None:
    serve(slow_echo)
    async with closed(AsyncUnixChannel(str(socket_path))) as channel:

        async def call(path: str) -> bytes:
            return (await channel.exchange(request(path=path), 5)).content

        tasks = [asyncio.create_task(call(f"/{number}")) for number in range(40)]
        for number, task in enumerate(tasks):
            if number % 2:
                await asyncio.sleep(0.004)
                task.cancel()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
    for number, got in enumerate(answers):
        assert got == b"/%d" % number or (number % 2 and isinstance(got, asyncio.CancelledError))


def test_waiting_for_another_thread_counts(serve: Serve, socket_path: Path) -> None:
    arrived, finish = threading.Event(), threading.Event()

    def play(wire: Wire) -> None:
        wire.request()
        arrived.set()
        finish.wait(5)
        wire.send(OK)

    server = serve(play)
    with closing(UnixChannel(str(socket_path))) as channel, ThreadPoolExecutor(1) as threads:
        first = threads.submit(channel.exchange, request(), 5)
        assert arrived.wait(5)
        with fails(VmmTimeoutError, sent=False, match=HELD):
            channel.exchange(request(), 0.1)
        finish.set()
        assert first.result().status_code == 200
    assert len(server.requests) == 1


async def test_waiting_for_another_task_counts(serve: Serve, socket_path: Path) -> None:
    finish = threading.Event()

    def play(wire: Wire) -> None:
        wire.request()
        finish.wait(5)
        wire.send(OK)

    server = serve(play)
    async with closed(AsyncUnixChannel(str(socket_path))) as channel:
        first = asyncio.create_task(channel.exchange(request(), 5))
        await asyncio.sleep(0)
        with fails(VmmTimeoutError, sent=False, match=HELD):
            await channel.exchange(request(), 0.1)
        finish.set()
        assert (await first).status_code == 200
    assert len(server.requests) == 1


def test_one_async_channel_outlives_event_loops(serve: Serve, socket_path: Path) -> None:
    server = serve(slow_echo)
    channel = AsyncUnixChannel(str(socket_path))

    async def calls() -> list[HttpAnswer]:
        return await asyncio.gather(*(channel.exchange(request(), 5) for _ in range(3)))

    for _ in range(2):
        assert [response.status_code for response in asyncio.run(calls())] == [200, 200, 200]
    asyncio.run(channel.close())
    assert len(server.requests) == 6


def test_a_call_that_its_event_loop_left_behind_ends_no_later_one(
    serve: Serve, socket_path: Path
) -> None:
    arrived, finish = threading.Semaphore(0), threading.Event()

    def play(wire: Wire) -> None:
        while wire.request():
            arrived.release()
            finish.wait(5)
            wire.send(OK)

    serve(play)
    channel = AsyncUnixChannel(str(socket_path))
    left: Any = channel.exchange(request(), None)

    async def begin() -> None:
        left.send(None)
        await asyncio.to_thread(arrived.acquire, timeout=5)

    async def call_while_the_other_is_dropped() -> HttpAnswer:
        answering = asyncio.create_task(channel.exchange(request(), 5))
        await asyncio.to_thread(arrived.acquire, timeout=5)
        left.close()
        finish.set()
        return await answering

    asyncio.run(begin())
    assert asyncio.run(call_while_the_other_is_dropped()).status_code == 200
    asyncio.run(channel.close())


def test_closing_waits_for_the_call_in_progress(serve: Serve, socket_path: Path) -> None:
    arrived = threading.Event()

    def play(wire: Wire) -> None:
        wire.request()
        arrived.set()
        time.sleep(0.1)
        wire.send(OK)

    serve(play)
    channel = UnixChannel(str(socket_path))
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(channel.exchange, request(), 5)
        assert arrived.wait(5)
        channel.close()
        assert first.result().status_code == 200
