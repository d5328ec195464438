from __future__ import annotations

import asyncio

import pytest

from fastapi_oidc.session.runs import SharedRuns


class Operation:
    """Runs until it is let go; counts its runs."""

    def __init__(self, error: Exception | None = None) -> None:
        self.runs, self.error = 0, error
        self.may_end = asyncio.Event()

    async def __call__(self) -> bytes:
        self.runs += 1
        await self.may_end.wait()
        if self.error is not None:
            raise self.error
        return b"result"


async def begun(runs: SharedRuns, operation: Operation) -> asyncio.Task[bytes]:
    task = asyncio.create_task(runs.run("session-1", operation))
    await asyncio.sleep(0)
    return task


async def test_everybody_who_comes_meanwhile_gets_the_result() -> None:
    runs, operation = SharedRuns(), Operation()
    callers = [await begun(runs, operation) for _ in range(100)]
    operation.may_end.set()
    assert await asyncio.gather(*callers) == [b"result"] * 100
    assert operation.runs == 1


async def test_everybody_who_comes_meanwhile_gets_the_error() -> None:
    runs, operation = SharedRuns(), Operation(ValueError("once"))
    callers = [await begun(runs, operation) for _ in range(3)]
    operation.may_end.set()
    for caller in callers:
        with pytest.raises(ValueError, match="once"):
            await caller
    assert operation.runs == 1


async def test_a_later_caller_runs_again() -> None:
    runs, operation = SharedRuns(), Operation()
    operation.may_end.set()
    await runs.run("session-1", operation)
    await runs.run("session-1", operation)
    assert operation.runs == 2


async def test_names_do_not_wait_for_each_other() -> None:
    runs, slow, quick = SharedRuns(), Operation(), Operation()
    waiting = await begun(runs, slow)
    quick.may_end.set()
    assert await runs.run("session-2", quick) == b"result"
    slow.may_end.set()
    await waiting


async def test_when_the_runner_is_cancelled_the_next_one_runs() -> None:
    runs, operation = SharedRuns(), Operation()
    runner, *waiting = [await begun(runs, operation) for _ in range(3)]
    runner.cancel()
    await asyncio.wait([runner])
    operation.may_end.set()
    assert await asyncio.gather(*waiting) == [b"result"] * 2
    assert operation.runs == 2
    assert runner.cancelled()


async def test_when_a_waiting_caller_is_cancelled_the_run_goes_on() -> None:
    runs, operation = SharedRuns(), Operation()
    runner, waiting = [await begun(runs, operation) for _ in range(2)]
    waiting.cancel()
    await asyncio.sleep(0)
    operation.may_end.set()
    assert await runner == b"result"
    assert waiting.cancelled()
