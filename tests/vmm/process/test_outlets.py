"""What comes out of a running monitor, its files and fifos, and what goes into it."""

import asyncio
import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from generated_vmm import VmmTimeoutError
from generated_vmm.process import Metrics, Monitor, async_log, async_metrics, log, metrics
from generated_vmm.process._sync import streams
from tests.vmm.process.conftest import PATIENCE, Do, Make, state_of

# mypy: disable-error-code="func-returns-value"


FLUSHES = 60  # more than a fifo holds


def flush(monitor: Monitor, do: Do) -> Metrics:
    """The metrics that the monitor writes when it is asked to."""
    do(monitor.client.action("FlushMetrics"))
    assert monitor.metrics.last is not None
    return monitor.metrics.last


def test_the_log_is_kept(start: Make, do: Do) -> None:
    monitor = start(id="vm-1", show_level=True, level="Info")
    do(monitor.client.get_version())
    do(monitor.kill())
    first = next(iter(monitor.log))
    assert first.message.startswith("Running Firecracker v")
    assert (first.instance_id, first.thread, first.level) == ("vm-1", "main", "INFO")
    assert any("/version" in line.message for line in monitor.log)


def test_counters_are_those_since_the_line_before(
    start: Make, do: Do, guest: dict[str, Any]
) -> None:
    monitor = start()
    do(monitor.client.boot(**guest))
    flush(monitor, do)
    for asked in (3, 1):
        for _ in range(asked):
            do(monitor.client.get_instance_info())
        counted = flush(monitor, do)
        assert counted.count("get_api_requests", "instance_info_count") == asked
        assert counted.count("put_api_requests", "actions_count") == 1


def test_metrics_never_fill_up(start: Make, do: Do, guest: dict[str, Any]) -> None:
    monitor = start()
    do(monitor.client.boot(**guest))
    flushed = [flush(monitor, do) for _ in range(FLUSHES)]
    assert all(each.groups for each in flushed)


def test_the_console_is_bounded(start: Make, do: Do, guest: dict[str, Any]) -> None:
    monitor = start(serial_bytes=16)
    do(monitor.client.boot(**guest))
    do(monitor.serial.wait(32, PATIENCE))
    piece = monitor.serial.read()
    assert len(piece.data) == 16
    assert piece.start == piece.end - 16 > 0


def test_followers_end_with_the_monitor(binary: list[str]) -> None:
    with Monitor(binary, timeout=PATIENCE) as monitor:
        seen: list[object] = []

        def follow(outlet: Any) -> None:
            seen.extend(outlet.follow(since=0))

        outlets = (monitor.serial, monitor.log, monitor.metrics)
        threads = [threading.Thread(target=follow, args=(outlet,)) for outlet in outlets]
        for thread in threads:
            thread.start()
        monitor.kill()
        for thread in threads:
            thread.join()
    assert seen


def test_input_that_no_guest_takes_has_its_time(start: Make, do: Do) -> None:
    monitor = start()
    os.kill(monitor.pid, signal.SIGSTOP)
    while state_of(monitor.pid) != "T":
        os.sched_yield()
    with pytest.raises(VmmTimeoutError, match="did not take all of 200000 bytes"):
        do(monitor.serial.write(bytes(200_000), timeout=0.05))


def test_outlets_of_ones_own_never_block_the_monitor(
    start: Make, do: Do, folder: Path, guest: dict[str, Any]
) -> None:
    """Nobody reads these fifos while the monitor fills them."""
    paths = folder / "own.log", folder / "own.metrics"
    for path in paths:
        os.mkfifo(path)
    monitor = start(log_path=paths[0], metrics_path=paths[1])
    do(monitor.client.boot(**guest))
    for _ in range(1000):
        do(monitor.client.get_instance_info())
    assert do(monitor.client.get_instance_info()).state == "Running"
    assert "Running Firecracker" in next(log(paths[0], follow=False)).message
    assert next(metrics(paths[1], follow=False)).groups
    with pytest.warns(
        RuntimeWarning, match=r"log_path='.*own.log' has .*, which log\(path\) reads"
    ):
        assert list(monitor.log) == []


# Following a file or a fifo that the monitor writes to


LINES = [json.dumps({"utc_timestamp_ms": number * 1000}) + "\n" for number in range(3)]


@pytest.fixture
def fifo(folder: Path) -> Path:
    os.mkfifo(folder / "fifo")
    return folder / "fifo"


@pytest.fixture
def writer(fifo: Path) -> int:
    """What the monitor holds: the fifo open for reading and writing."""
    descriptor = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    return descriptor


def test_a_file_is_read_to_its_end(folder: Path) -> None:
    path = folder / "metrics"
    path.write_text("".join(LINES) + "half a li")
    assert [each.seconds for each in metrics(path, follow=False)] == [None, 1.0, 1.0]
    path.write_text("first\nsecond\n")
    assert [each.message for each in log(path, follow=False)] == ["first", "second"]


def test_a_file_is_followed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "log"
    path.write_text("first\n")
    lines = log(path)
    assert next(lines).message == "first"
    monkeypatch.setattr(streams, "sleep", lambda _: path.write_text("first\nsecond\n"))
    assert next(lines).message == "second"


async def test_a_long_file_leaves_the_loop_free(folder: Path) -> None:
    path = folder / "log"
    path.write_text("a line\n" * 40_000)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    task = asyncio.create_task(count())
    assert len([line async for line in async_log(path, follow=False)]) == 40_000
    task.cancel()
    assert turns >= 4


async def test_a_file_is_followed_by_a_task(folder: Path) -> None:
    path = folder / "log"
    path.touch()
    task = asyncio.ensure_future(anext(async_log(path)))
    await asyncio.sleep(0)
    path.write_text("first\n")
    assert (await task).message == "first"


async def test_a_fifo_is_followed_by_a_task_until_its_writers_are_gone(
    fifo: Path, writer: int
) -> None:
    async def read() -> list[float | None]:
        return [each.seconds async for each in async_metrics(fifo)]

    task = asyncio.create_task(read())
    for line in LINES:
        os.write(writer, line.encode())
        await asyncio.sleep(0)
    os.close(writer)
    assert await task == [None, 1.0, 1.0]


async def test_a_fifo_may_be_followed_before_it_has_a_writer(fifo: Path) -> None:
    async def read() -> list[str]:
        return [each.message async for each in async_log(fifo)]

    task = asyncio.create_task(read())
    await asyncio.sleep(0.01)
    assert not task.done()
    descriptor = os.open(fifo, os.O_WRONLY)
    os.write(descriptor, b"first\n")
    os.close(descriptor)
    assert await task == ["first"]


async def test_what_a_fifo_has_is_read_by_a_task_without_waiting(fifo: Path, writer: int) -> None:
    os.write(writer, b"first\n")
    assert [each.message async for each in async_log(fifo, follow=False)] == ["first"]
    os.close(writer)


def test_a_path_with_nothing_is_an_error(folder: Path) -> None:
    with pytest.raises(FileNotFoundError):
        next(log(folder / "missing"))


@pytest.mark.parametrize("rotate", ["rename", "truncate"])
def test_a_follower_stays_with_the_file_that_the_monitor_keeps_open(
    folder: Path, rotate: str
) -> None:
    path = folder / "log"
    with path.open("wb", buffering=0) as written:
        written.write(b"one\n")
        lines = log(path)
        assert next(lines).text == "one"
        if rotate == "rename":
            path.rename(folder / "log.1")
            path.write_text("3\n")
        else:
            os.truncate(path, 0)
        written.write(b"two\n")
        assert next(lines).text == "two"
