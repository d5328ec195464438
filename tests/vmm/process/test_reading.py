"""Following a file or a fifo that the monitor writes to."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from generated_vmm.process import async_log, async_metrics, log, metrics
from generated_vmm.process._sync import streams

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
