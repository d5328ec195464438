"""Work that runs once for many callers, a few at a time, and not after a shutdown began."""

import asyncio
import gc
import threading
import time
import weakref
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest

from fastapi_oidc.concurrency import STALLS, PerLoop, SingleFlight, TimeLimit, called

PATIENCE = 20


class Operation:
    """Runs until it is released, and counts its runs."""

    def __init__(self, error: Exception | None = None) -> None:
        self.runs, self.release, self._error = 0, asyncio.Event(), error

    async def __call__(self) -> int:
        self.runs += 1
        await self.release.wait()
        if self._error:
            raise self._error
        return self.runs


async def begun(
    flights: SingleFlight[str, int], operation: Operation, key: str = "one"
) -> asyncio.Task[int]:
    caller = asyncio.create_task(flights.run(key, operation))
    for _ in range(2):  # the caller, and the operation that it starts
        await asyncio.sleep(0)
    return caller


class TestSingleFlight:
    async def test_callers_share_one_run_and_a_later_one_runs_anew(self) -> None:
        flights, operation = SingleFlight[str, int](), Operation()
        callers = [await begun(flights, operation) for _ in range(100)]
        assert flights.under_way()
        operation.release.set()
        assert await asyncio.gather(*callers) == [1] * 100
        assert not flights.under_way()
        assert await flights.run("one", operation) == 2

    async def test_an_error_reaches_every_caller(self) -> None:
        flights, operation = SingleFlight[str, int](), Operation(ValueError("down"))
        callers = [await begun(flights, operation) for _ in range(3)]
        operation.release.set()
        outcomes = await asyncio.gather(*callers, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [ValueError] * 3

    @pytest.mark.parametrize("cancelled", [0, 1])
    async def test_a_cancelled_caller_cancels_nobody_else(self, cancelled: int) -> None:
        flights, operation = SingleFlight[str, int](), Operation()
        callers = [await begun(flights, operation) for _ in range(2)]
        callers[cancelled].cancel()
        operation.release.set()
        assert await callers[1 - cancelled] == 1
        assert callers[cancelled].cancelled()

    async def test_an_operation_goes_on_without_callers_and_is_waited_for_a_limited_time(
        self,
    ) -> None:
        flights, operation = SingleFlight[str, int](), Operation()
        caller = await begun(flights, operation)
        caller.cancel()
        await flights.wait(0.001)
        assert flights.under_way()
        operation.release.set()
        async with asyncio.timeout(PATIENCE):
            await flights.wait(PATIENCE)
        assert (operation.runs, flights.under_way()) == (1, [])


class Later:
    """Async by its `__call__` alone."""

    async def __call__(self, value: int) -> int:
        await asyncio.sleep(0)
        return value


async def later(value: int) -> int:
    return await Later()(value)


def test_a_callback_may_be_written_in_any_way() -> None:
    async def results() -> list[int]:
        forms: list[Any] = [later, Later(), partial(later), lambda value: later(value), lambda a: a]
        return [await called(callback, 4) for callback in forms]

    assert asyncio.run(results()) == [4] * 5


async def test_a_sync_callback_runs_in_a_thread_with_the_context_of_its_caller() -> None:
    variable: ContextVar[str] = ContextVar("variable", default="")
    variable.set("of the caller")
    caller = threading.get_ident()
    assert await called(lambda: threading.get_ident() != caller)
    assert await called(variable.get) == "of the caller"


@pytest.mark.parametrize("may_be_abandoned", [True, False])
async def test_a_sync_callback_may_be_abandoned_or_is_waited_for(may_be_abandoned: bool) -> None:
    reached, released, over = threading.Event(), threading.Event(), threading.Event()

    def slow() -> None:
        reached.set()
        released.wait(PATIENCE)
        over.set()

    task = asyncio.create_task(called(slow, may_be_abandoned=may_be_abandoned))
    await asyncio.to_thread(reached.wait, PATIENCE)
    task.cancel()
    await asyncio.sleep(0.01)
    assert task.done() is may_be_abandoned
    released.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(over.wait, PATIENCE)


def test_each_event_loop_has_its_value_until_it_is_closed() -> None:
    class Connection:
        """Refers to its event loop, as a connection does."""

        def __init__(self) -> None:
            self.loop = asyncio.get_running_loop()

    values = PerLoop(Connection)

    async def use() -> weakref.ref[Connection]:
        assert values.here() is values.here()
        assert values.here().loop is asyncio.get_running_loop()
        return weakref.ref(values.here())

    first, second = asyncio.run(use()), asyncio.run(use())
    gc.collect()
    assert first() is None
    assert second() is not None


async def test_a_time_limit_ends_what_waits_longer() -> None:
    with pytest.raises(TimeoutError):
        async with TimeLimit(0.01):
            await asyncio.Event().wait()


async def test_a_stall_of_the_event_loop_is_no_reason_to_give_up() -> None:
    """What came during the stall is there at the next turn of the loop."""
    limit = 0.02
    async with TimeLimit(limit):
        for _ in range(STALLS - 1):
            time.sleep(limit)  # noqa: ASYNC251 - the stall
            await asyncio.sleep(0)
