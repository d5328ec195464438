"""Tasks that are cancelled, and calls that a signal interrupts, while a monitor begins or ends."""

import asyncio
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from generated_vmm.process import AsyncMonitor, Monitor, MonitorStartError
from generated_vmm.process._async.waiting import in_own_thread, until
from generated_vmm.process.keeper.kernel import Descriptor
from generated_vmm.process.outlets import Broadcast
from generated_vmm.process.owner import Owner
from tests.vmm.process.conftest import PATIENCE
from tests.vmm.process.kernel import descriptors

Interrupt = Callable[[str, Callable[..., object]], None]


@pytest.fixture(autouse=True)
def _nothing_is_left(folder: Path) -> Iterator[None]:
    yield
    assert not (folder / "vm").exists()


@pytest.fixture
def monitor(binary: list[str], folder: Path) -> Monitor:
    return Monitor(binary, directory=folder / "vm", timeout=PATIENCE)


@pytest.fixture
def in_tasks(binary: list[str], folder: Path) -> AsyncMonitor:
    return AsyncMonitor(binary, directory=folder / "vm", timeout=PATIENCE)


async def cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("event", ["taken", "started", "ready"])
async def test_a_start_that_is_cancelled_leaves_nothing(
    in_tasks: AsyncMonitor, monkeypatch: pytest.MonkeyPatch, event: str
) -> None:
    loop, reached, note = asyncio.get_running_loop(), asyncio.Event(), Owner._note

    def note_cancelled(self: Owner, name: str, *given: Any, **told: Any) -> None:
        if name == event:
            loop.call_soon_threadsafe(reached.set)
        note(self, name, *given, **told)

    monkeypatch.setattr(Owner, "_note", note_cancelled)
    task = asyncio.create_task(in_tasks.start())
    await reached.wait()
    await cancel(task)
    assert not in_tasks.running


async def test_a_stop_that_is_cancelled_kills(in_tasks: AsyncMonitor) -> None:
    await in_tasks.start()
    os.kill(in_tasks.pid, signal.SIGSTOP)
    task = asyncio.create_task(in_tasks.stop())
    await asyncio.sleep(0)
    await cancel(task)
    assert in_tasks.returncode == -signal.SIGKILL


class Interrupted(Exception):
    """What a signal handler raises, as that of a task queue for a soft limit."""


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Interrupt:
    """Lets a handler be called in the main thread at a word to the keeper, or at an event."""
    say, note = Owner.say, Owner._note
    moments: list[str] = []

    def signal_main_at(moment: str) -> None:
        if moment in moments:
            moments.clear()
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    def interrupted_say(self: Owner, word: str) -> None:
        say(self, word)
        signal_main_at(word)

    def interrupted_note(self: Owner, event: str, *given: Any, **told: Any) -> None:
        signal_main_at(event)
        note(self, event, *given, **told)

    monkeypatch.setattr(Owner, "say", interrupted_say)
    monkeypatch.setattr(Owner, "_note", interrupted_note)

    def interrupt(moment: str, handler: Callable[..., object]) -> None:
        before = signal.signal(signal.SIGUSR1, handler)
        request.addfinalizer(lambda: signal.signal(signal.SIGUSR1, before))
        moments.append(moment)

    return interrupt


def fail(*_: object) -> None:
    raise Interrupted


@pytest.mark.parametrize(("moment", "end"), [("stop", Monitor.stop), ("ended", Monitor.kill)])
def test_an_end_that_a_signal_interrupts_is_a_kill(
    monitor: Monitor, interrupt: Interrupt, moment: str, end: Callable[[Monitor], object]
) -> None:
    monitor.start()
    os.kill(monitor.pid, signal.SIGSTOP)
    interrupt(moment, fail)
    with pytest.raises(Interrupted):
        end(monitor)
    assert monitor.returncode == -signal.SIGKILL


@pytest.mark.parametrize("moment", ["start", "taken", "started", "ready", "up"])
def test_a_start_that_a_signal_interrupts_leaves_nothing(
    monitor: Monitor, interrupt: Interrupt, moment: str
) -> None:
    interrupt(moment, fail)
    with pytest.raises(Interrupted):
        monitor.start()
    assert not monitor.running


@pytest.mark.parametrize("end", [Monitor.stop, Monitor.kill])
def test_a_signal_handler_ends_a_monitor_that_is_being_stopped(
    monitor: Monitor, interrupt: Interrupt, end: Callable[[Monitor], int | None]
) -> None:
    monitor.start()
    handled: list[int | None] = []
    interrupt("stop", lambda *_: handled.append(end(monitor)))
    assert monitor.stop() == handled[0] == monitor.returncode


@pytest.mark.parametrize("moment", ["started", "ready"])
def test_a_signal_handler_ends_a_monitor_that_is_being_started(
    monitor: Monitor, interrupt: Interrupt, moment: str
) -> None:
    interrupt(moment, lambda *_: monitor.stop())
    with pytest.raises(MonitorStartError, match="was stopped"):
        monitor.start()


def test_kill_does_not_wait_for_the_grace_of_another_thread(
    binary: list[str], guest: dict[str, Any]
) -> None:
    monitor = Monitor(binary, timeout=PATIENCE).start()
    monitor.client.boot(**guest)
    monitor.serial.read_until(b"guest is up", timeout=PATIENCE)
    os.kill(monitor.pid, signal.SIGSTOP)
    stopping = threading.Thread(target=monitor.stop, args=[1000.0])
    stopping.start()
    assert monitor.kill() == -signal.SIGKILL
    stopping.join(PATIENCE)
    assert not stopping.is_alive()


async def test_two_tasks_may_end_a_monitor(in_tasks: AsyncMonitor) -> None:
    await in_tasks.start()
    ended = [await task for task in map(asyncio.ensure_future, (in_tasks.stop(), in_tasks.kill()))]
    assert ended[0] == ended[1] == -signal.SIGKILL


async def test_a_block_that_is_cancelled_ends_its_monitor(in_tasks: AsyncMonitor) -> None:
    entered = asyncio.Event()

    async def run() -> None:
        async with in_tasks:
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(run())
    await entered.wait()
    await cancel(task)
    assert in_tasks.returncode == -signal.SIGKILL


def test_a_descriptor_has_an_owner_when_a_handler_raises_after_its_system_call(
    folder: Path, request: pytest.FixtureRequest
) -> None:
    """The call returns in the step of the interpreter after which the handler is called."""
    path, main = folder / "fifo", threading.main_thread().ident or 0
    os.mkfifo(path)
    before = signal.signal(signal.SIGUSR1, fail)
    request.addfinalizer(lambda: signal.signal(signal.SIGUSR1, before))
    request.addfinalizer(partial(sys.setswitchinterval, sys.getswitchinterval()))
    sys.setswitchinterval(PATIENCE)  # a thread lets the other go on where it waits, nowhere else
    libc, writers = ctypes.PyDLL(None), list[int]()

    def open_and_interrupt() -> None:
        """The main thread's call succeeds, and has its result once this thread lets it go on."""
        while (number := libc.open(os.fsencode(path), os.O_WRONLY | os.O_NONBLOCK)) < 0:
            os.sched_yield()  # the main thread has not called yet
        writers.append(number)
        libc.pthread_kill(ctypes.c_ulong(main), signal.SIGUSR1)

    thread = threading.Thread(target=open_and_interrupt)
    open_before = descriptors()
    thread.start()
    with pytest.raises(Interrupted):
        Descriptor(os.open, path, os.O_RDONLY)
    thread.join()
    os.close(writers[0])
    assert descriptors() <= open_before


async def test_a_wait_that_is_cancelled_again_and_again_waits_no_longer_than_its_time() -> None:
    """A scope of anyio cancels a task at every turn of its event loop."""
    with anyio.CancelScope() as scope:
        scope.cancel()
        with pytest.raises(asyncio.CancelledError):
            await until(Broadcast(), lambda: False, 0.2)
    task = asyncio.create_task(until(Broadcast(), lambda: False, 0.01))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_thread_has_ended_whenever_its_caller_is_cancelled_again() -> None:
    may_end, ended = threading.Event(), threading.Event()

    def work() -> None:
        may_end.wait()
        ended.set()

    task = asyncio.create_task(in_own_thread(work))
    for _ in range(2 * sys.getrecursionlimit()):
        await asyncio.sleep(0)
        task.cancel()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
