"""Threads and tasks that share one transport take turns, and each gets its own answer."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from generated_vmm.transport import AsyncUnixTransport, UnixTransport
from tests.vmm.scripted import OK, Wire, answer
from tests.vmm.transport.conftest import Serve

CALLS = 200
HELD = r"^another call held the connection$"


def echo(wire: Wire) -> None:
    """Answers each request with its own path."""
    while wire.request():
        wire.send(answer(200, wire.latest.split(b" ")[1]))


def slow_echo(wire: Wire) -> None:
    """The same, so slowly that the next call has to wait for its turn."""
    while wire.request():
        time.sleep(0.005)
        wire.send(answer(200, wire.latest.split(b" ")[1]))


def request_to(path: str, timeout: float | None = 5.0) -> httpx.Request:
    return httpx.Request(
        "GET", f"http://localhost{path}", extensions={"timeout": {"read": timeout}}
    )


def test_threads_get_their_own_answers(serve: Serve, socket_path: Path) -> None:
    server = serve(echo)
    paths = [f"/{number}" for number in range(CALLS)]
    with UnixTransport(socket_path) as transport, ThreadPoolExecutor(8) as threads:
        answers = threads.map(lambda path: transport.handle_request(request_to(path)).read(), paths)
        assert list(answers) == [path.encode() for path in paths]
    assert len(server.connections) == 1


async def test_tasks_get_their_own_answers(serve: Serve, socket_path: Path) -> None:
    server = serve(echo)
    async with AsyncUnixTransport(socket_path) as transport:

        async def call(path: str) -> bytes:
            return await (await transport.handle_async_request(request_to(path))).aread()

        paths = [f"/{number}" for number in range(CALLS)]
        assert await asyncio.gather(*map(call, paths)) == [path.encode() for path in paths]
    assert len(server.connections) == 1


async def test_cancelled_calls_leave_nothing_for_the_others(
    serve: Serve, socket_path: Path
) -> None:
    serve(slow_echo)
    async with AsyncUnixTransport(socket_path) as transport:

        async def call(path: str) -> bytes:
            return await (await transport.handle_async_request(request_to(path))).aread()

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
    with UnixTransport(socket_path) as transport, ThreadPoolExecutor(1) as threads:
        first = threads.submit(transport.handle_request, request_to("/first"))
        assert arrived.wait(5)
        with pytest.raises(httpx.ConnectTimeout, match=HELD):
            transport.handle_request(request_to("/second", timeout=0.1))
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
    async with AsyncUnixTransport(socket_path) as transport:
        first = asyncio.create_task(transport.handle_async_request(request_to("/first")))
        await asyncio.sleep(0)
        with pytest.raises(httpx.ConnectTimeout, match=HELD):
            await transport.handle_async_request(request_to("/second", timeout=0.1))
        finish.set()
        assert (await first).status_code == 200
    assert len(server.requests) == 1


def test_one_async_transport_outlives_event_loops(serve: Serve, socket_path: Path) -> None:
    server = serve(slow_echo)
    transport = AsyncUnixTransport(socket_path)

    async def calls() -> list[httpx.Response]:
        requests = [request_to(f"/{number}") for number in range(3)]
        return await asyncio.gather(*map(transport.handle_async_request, requests))

    for _ in range(2):
        assert [response.status_code for response in asyncio.run(calls())] == [200, 200, 200]
    asyncio.run(transport.aclose())
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
    transport = AsyncUnixTransport(socket_path)
    left = transport.handle_async_request(request_to("/left", timeout=None))

    async def begin() -> None:
        left.send(None)
        await asyncio.to_thread(arrived.acquire, timeout=5)

    async def call_while_the_other_is_dropped() -> httpx.Response:
        answering = asyncio.create_task(transport.handle_async_request(request_to("/next")))
        await asyncio.to_thread(arrived.acquire, timeout=5)
        left.close()
        finish.set()
        return await answering

    asyncio.run(begin())
    assert asyncio.run(call_while_the_other_is_dropped()).status_code == 200
    asyncio.run(transport.aclose())


def test_closing_waits_for_the_call_in_progress(serve: Serve, socket_path: Path) -> None:
    arrived = threading.Event()

    def play(wire: Wire) -> None:
        wire.request()
        arrived.set()
        time.sleep(0.1)
        wire.send(OK)

    serve(play)
    transport = UnixTransport(socket_path)
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(transport.handle_request, request_to("/"))
        assert arrived.wait(5)
        transport.close()
        assert first.result().status_code == 200
