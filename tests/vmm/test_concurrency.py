"""Waiting as a thread and as a task: the same names, the same results."""

import asyncio
import contextlib
import inspect
import math
import select
import socket
import threading
import time
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from generated_vmm.concurrency import _async, _sync

HALVES = pytest.mark.parametrize("half", [_sync, _async], ids=["threads", "tasks"])
SOON = 0.05


def run(call: Any) -> Any:
    """The result of a call of either half."""

    async def awaited() -> Any:
        made = call()
        return await made if inspect.isawaitable(made) else made

    return asyncio.run(awaited())


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with contextlib.ExitStack() as opened:
        ends = socket.socketpair(socket.AF_UNIX)
        for end in ends:
            opened.enter_context(end).setblocking(False)
        yield ends


async def test_a_cancelled_wait_leaves_the_socket_to_others(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    waiting = asyncio.create_task(_async.readable(ours, math.inf))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    theirs.send(b"x")
    assert await _async.readable(ours, math.inf)


def test_a_wait_is_one_system_call_for_all_the_time_that_is_left(
    monkeypatch: pytest.MonkeyPatch, pair: tuple[socket.socket, socket.socket]
) -> None:
    """Of so many milliseconds as poll(2) can be told."""

    class Poll:
        now, waits = 100.0, list[float]()

        def register(self, *_: object) -> None:
            pass

        def poll(self, milliseconds: float) -> list[tuple[int, int]]:
            self.waits.append(milliseconds)
            self.now += milliseconds / 1000
            return []

    poll = Poll()
    monkeypatch.setattr(_sync, "time", SimpleNamespace(monotonic=lambda: poll.now))
    named = SimpleNamespace(poll=lambda: poll, POLLIN=select.POLLIN)
    monkeypatch.setattr(_sync, "select", named)
    assert not _sync.readable(pair[0], 100.25)
    assert not _sync.readable(pair[0], 2_000_100.25)
    assert poll.waits == [250, 1_000_000_000, 1_000_000_000]


@HALVES
@pytest.mark.parametrize("seconds", [5, math.inf])
def test_another_thread_wakes_a_wait_once(half: ModuleType, seconds: float) -> None:
    def wait() -> Any:
        wakeup = half.Wakeup()
        threading.Thread(target=wakeup).start()
        return both(half, wakeup, seconds)

    assert run(wait) == [True, False]


def both(half: ModuleType, wakeup: Any, seconds: float) -> Any:
    """A wait that is ended, and one that is not."""
    if half is _sync:
        return [wakeup.wait(time.monotonic() + each) for each in (seconds, SOON)]

    async def waits() -> list[bool]:
        return [await wakeup.wait(time.monotonic() + each) for each in (seconds, SOON)]

    return waits()


def test_a_thread_has_ended_when_its_event_loop_ends() -> None:
    """At its end, `asyncio.run` cancels all tasks at once."""
    begun, may_end, moments = threading.Event(), threading.Event(), list[str]()

    def work() -> None:
        begun.set()
        may_end.wait()
        moments.append("the thread has ended")

    async def wait() -> None:
        try:
            await _async.in_thread(work)
        finally:
            moments.append("its caller goes on")

    async def main() -> None:
        task = asyncio.create_task(wait())
        await asyncio.to_thread(begun.wait)
        asyncio.get_running_loop().call_later(SOON, may_end.set)
        assert not task.done()

    asyncio.run(main())
    assert moments == ["the thread has ended", "its caller goes on"]
