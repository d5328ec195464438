"""Coalescing of calls, and what the cancellation of one caller does to the others."""

from __future__ import annotations

import asyncio

import pytest

from fastapi_oidc.provider.single_flight import SingleFlight


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


async def begin(flight: SingleFlight[int], operation: Operation) -> asyncio.Task[int]:
    caller = asyncio.create_task(flight.run(operation))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return caller


async def test_callers_share_one_run() -> None:
    flight, operation = SingleFlight[int](), Operation()
    callers = [await begin(flight, operation) for _ in range(100)]
    operation.release.set()
    assert await asyncio.gather(*callers) == [1] * 100


async def test_a_call_after_the_end_runs_anew() -> None:
    flight, operation = SingleFlight[int](), Operation()
    operation.release.set()
    assert [await flight.run(operation), await flight.run(operation)] == [1, 2]


async def test_an_error_reaches_every_caller() -> None:
    flight, operation = SingleFlight[int](), Operation(ValueError("down"))
    callers = [await begin(flight, operation) for _ in range(3)]
    operation.release.set()
    outcomes = await asyncio.gather(*callers, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ValueError] * 3


async def test_the_first_caller_leaves_and_the_others_still_get_it() -> None:
    flight, operation = SingleFlight[int](), Operation()
    first = await begin(flight, operation)
    second = await begin(flight, operation)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    operation.release.set()
    assert await second == 1


async def test_an_abandoned_run_that_fails_disturbs_nobody() -> None:
    flight, operation = SingleFlight[int](), Operation(ValueError("down"))
    only = await begin(flight, operation)
    only.cancel()
    await asyncio.wait([only])
    operation.release.set()
    await asyncio.sleep(0.01)
    assert not flight.is_under_way


def test_a_run_left_behind_by_another_event_loop_is_not_joined() -> None:
    flight: SingleFlight[str] = SingleFlight()
    left_behind = asyncio.new_event_loop()

    async def never() -> str:
        await asyncio.sleep(60)
        return "old"

    async def abandon() -> asyncio.Task[str]:
        task = asyncio.create_task(flight.run(never))
        await asyncio.sleep(0.01)
        return task

    async def fresh() -> str:
        return "new"

    abandoned = left_behind.run_until_complete(abandon())
    assert asyncio.run(flight.run(fresh)) == "new"
    abandoned.cancel()
    left_behind.run_until_complete(asyncio.wait([abandoned]))
    for task in asyncio.all_tasks(left_behind):
        task.cancel()
        left_behind.run_until_complete(asyncio.wait([task]))
    left_behind.close()
