"""Coalescing of calls, and what the cancellation of one caller does to the others."""

from __future__ import annotations

import asyncio

import pytest

from fastapi_oidc.once import Flights


class Operation:
    def __init__(self, error: Exception | None = None) -> None:
        self.runs = 0
        self.release = asyncio.Event()
        self._error = error

    async def __call__(self) -> int:
        self.runs += 1
        await self.release.wait()
        if self._error:
            raise self._error
        return self.runs


async def begin(flights: Flights[str, int], operation: Operation) -> asyncio.Task[int]:
    caller = asyncio.create_task(flights.run("one", operation))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return caller


async def test_callers_share_one_run() -> None:
    flights, operation = Flights[str, int](), Operation()
    callers = [await begin(flights, operation) for _ in range(100)]
    operation.release.set()
    assert await asyncio.gather(*callers) == [1] * 100
    assert len(flights) == 0


async def test_a_call_after_the_end_runs_anew() -> None:
    flights, operation = Flights[str, int](), Operation()
    operation.release.set()
    assert [await flights.run("one", operation), await flights.run("one", operation)] == [1, 2]


async def test_an_error_reaches_every_caller() -> None:
    flights, operation = Flights[str, int](), Operation(ValueError("down"))
    callers = [await begin(flights, operation) for _ in range(3)]
    operation.release.set()
    outcomes = await asyncio.gather(*callers, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ValueError] * 3


async def test_names_do_not_wait_for_each_other() -> None:
    flights, slow, quick = Flights[str, int](), Operation(), Operation()
    waiting = await begin(flights, slow)
    quick.release.set()
    assert await flights.run("other", quick) == 1
    slow.release.set()
    await waiting


async def test_the_first_caller_leaves_and_the_others_still_get_it() -> None:
    flights, operation = Flights[str, int](), Operation()
    first = await begin(flights, operation)
    second = await begin(flights, operation)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    operation.release.set()
    assert await second == 1


async def test_an_abandoned_run_that_fails_disturbs_nobody() -> None:
    flights, operation = Flights[str, int](), Operation(ValueError("down"))
    only = await begin(flights, operation)
    only.cancel()
    await asyncio.wait([only])
    operation.release.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(flights) == 0


def test_a_run_left_behind_by_another_event_loop_is_not_joined() -> None:
    flights: Flights[str, str] = Flights()
    left_behind = asyncio.new_event_loop()

    async def never() -> str:
        await asyncio.Event().wait()
        return "old"

    async def abandon() -> asyncio.Task[str]:
        task = asyncio.create_task(flights.run("one", never))
        for _ in range(5):
            await asyncio.sleep(0)
        return task

    async def fresh() -> str:
        return "new"

    left_behind.run_until_complete(abandon())
    assert asyncio.run(flights.run("one", fresh)) == "new"
    for task in asyncio.all_tasks(left_behind):
        task.cancel()
        left_behind.run_until_complete(asyncio.wait([task]))
    left_behind.close()
