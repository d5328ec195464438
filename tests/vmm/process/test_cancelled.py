"""Tasks that are cancelled, and calls that a signal interrupts, while a monitor begins or ends."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from generated_vmm.process import AsyncMonitor, Monitor
from generated_vmm.process.child import Child
from generated_vmm.process.process import Process
from tests.vmm.process.conftest import PATIENCE


async def cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_start_that_is_cancelled_while_it_waits_leaves_nothing(folder: Path) -> None:
    program = folder / "program"
    program.write_text("#!/bin/sh\nexec sleep 1000\n")
    program.chmod(0o755)
    monitor = AsyncMonitor(program, directory=folder / "vm", timeout=PATIENCE)
    task = asyncio.create_task(monitor.start())
    while not monitor.running:  # noqa: ASYNC110  # no event tells of a process in between
        await asyncio.sleep(0)
    await cancel(task)
    assert monitor.returncode == -signal.SIGKILL
    assert not (folder / "vm").exists()


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_start_that_is_cancelled_while_the_process_begins_leaves_nothing(
    binary: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    loop, reached = asyncio.get_running_loop(), asyncio.Event()
    begin = Process.begin

    def begin_cancelled(self: Process) -> None:
        if moment == "before":
            loop.call_soon_threadsafe(reached.set)
        begin(self)
        loop.call_soon_threadsafe(reached.set)

    monkeypatch.setattr(Process, "begin", begin_cancelled)
    monitor = AsyncMonitor(binary, directory=folder / "vm", timeout=PATIENCE)
    task = asyncio.create_task(monitor.start())
    await reached.wait()
    await cancel(task)
    assert monitor.returncode == -signal.SIGKILL
    assert not (folder / "vm").exists()


async def test_a_stop_that_is_cancelled_kills(binary: list[str], folder: Path) -> None:
    monitor = AsyncMonitor(binary, directory=folder / "vm", timeout=PATIENCE)
    await monitor.start()
    os.kill(monitor.pid, signal.SIGSTOP)
    task = asyncio.create_task(monitor.stop())
    await asyncio.sleep(0)
    await cancel(task)
    assert monitor.returncode == -signal.SIGKILL
    assert not (folder / "vm").exists()


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit])
def test_a_stop_that_a_signal_interrupts_kills(
    binary: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch, raised: type[BaseException]
) -> None:
    monitor = Monitor(binary, directory=folder / "vm", timeout=PATIENCE).start()
    os.kill(monitor.pid, signal.SIGSTOP)

    def interrupted(child: Child, seconds: float | None) -> bool:
        monkeypatch.undo()
        raise raised

    monkeypatch.setattr(Child, "wait", interrupted)
    with pytest.raises(raised):
        monitor.stop()
    assert monitor.returncode == -signal.SIGKILL
    assert not (folder / "vm").exists()


async def test_two_tasks_may_end_a_monitor(binary: list[str]) -> None:
    monitor = await AsyncMonitor(binary, timeout=PATIENCE).start()
    ended = [await task for task in map(asyncio.ensure_future, (monitor.stop(), monitor.kill()))]
    assert ended == [-signal.SIGTERM, -signal.SIGTERM]


async def test_a_block_that_is_cancelled_ends_its_monitor(binary: list[str]) -> None:
    entered = asyncio.Event()
    started: list[AsyncMonitor] = []

    async def run() -> None:
        async with AsyncMonitor(binary, timeout=PATIENCE) as monitor:
            started.append(monitor)
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(run())
    await entered.wait()
    await cancel(task)
    assert started[0].returncode == -signal.SIGTERM


async def test_many_begin_and_end_at_once(binary: list[str]) -> None:
    async def run(number: int) -> str:
        async with AsyncMonitor(binary, id=f"vm-{number}", timeout=100) as monitor:
            return (await monitor.client.get_instance_info()).id

    ids = await asyncio.gather(*(run(number) for number in range(50)))
    assert ids == [f"vm-{number}" for number in range(50)]
