"""How long a call goes on after its access has ended elsewhere, or while the store is silent."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from fastapi_oidc import Code, SessionError
from fastapi_oidc.broker import Limits, Refused, Use
from fastapi_oidc.broker.calls import POLL_SECONDS, UNSURE_SECONDS, OpenCalls
from tests.oidc.virtual_time import VirtualTimeLoop

Run = Callable[[Coroutine[Any, Any, Any]], Any]
WITHDRAWN = Refused(Code.BROKER_WITHDRAWN)
DOWN = SessionError(Code.SESSION_STORE_UNAVAILABLE)


@pytest.fixture
def run() -> Iterator[Run]:
    loop = VirtualTimeLoop()
    yield loop.run_until_complete
    loop.end()


class Store:
    """Says that an access has ended, fails, or is silent, from one time of the loop to another."""

    def __init__(
        self, error: Exception | None = None, *, at: float = 0, until: float = 1e9
    ) -> None:
        self.error, self.at, self.until = error, at, until
        self.judged, self.recorded = list[float](), list[Use]()

    async def judge(self) -> None:
        now = asyncio.get_running_loop().time()
        self.judged.append(now)
        if self.at <= now < self.until and self.error is not None:
            raise self.error

    async def record(self, cost: Use) -> None:
        await self.judge()
        self.recorded.append(cost)

    def calls(self, **limits: Any) -> OpenCalls:
        return OpenCalls(Limits(**{"seconds": 3600} | limits), self.judge, self.record)


class Silent(Store):
    """Never responds."""

    async def judge(self) -> None:
        await asyncio.Event().wait()


async def length_of_call(store: Store, seconds: float) -> float:
    """How long a call of `seconds` goes on."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        async with store.calls().opened():
            await asyncio.sleep(seconds)
    except SessionError:
        pass
    return loop.time() - began


@pytest.mark.parametrize("at", [0.0, 0.3, 0.999, 5.5])
def test_an_end_elsewhere_cuts_a_call_within_the_bound(run: Run, at: float) -> None:
    assert at <= run(length_of_call(Store(WITHDRAWN, at=at), 100)) <= at + POLL_SECONDS


def test_a_short_outage_cuts_nothing(run: Run) -> None:
    store = Store(DOWN, at=1, until=1 + UNSURE_SECONDS - POLL_SECONDS)
    assert run(length_of_call(store, 30)) == 30


@pytest.mark.parametrize("error", [DOWN, RuntimeError()])
def test_a_long_outage_or_another_error_cuts_a_call_within_the_bound(
    run: Run, error: Exception
) -> None:
    length = run(length_of_call(Store(error, at=10.5), 100))
    assert 10.5 < length <= 10.5 + UNSURE_SECONDS + POLL_SECONDS


def test_a_store_that_never_responds_cuts_a_call_within_the_bound(run: Run) -> None:
    assert run(length_of_call(Silent(), 100)) <= UNSURE_SECONDS + 2 * POLL_SECONDS


def test_calls_that_follow_one_another_are_watched_and_recorded_together(run: Run) -> None:
    store = Store()

    async def many() -> None:
        calls = store.calls()
        for _ in range(40):
            async with calls.opened():
                await asyncio.sleep(0.25)
            calls.count(Use(1, 2, 3, 4))
        await asyncio.sleep(2)

    run(many())
    assert len(store.judged) <= 22
    assert store.recorded[-1] == (40, 80, 120, 4)
    assert len(store.recorded) <= 11


def test_costs_are_recorded_when_the_store_is_back(run: Run) -> None:
    store = Store(DOWN, until=7.5)

    async def one() -> None:
        store.calls().count(Use(1, 2, 3, 4))
        await asyncio.sleep(10)

    run(one())
    assert store.recorded == [(1, 2, 3, 4)]


def test_each_call_is_told_its_own_reason(run: Run) -> None:
    async def reasons() -> list[Code]:
        calls, found = Store().calls(seconds=3), list[Code]()

        async def call() -> None:
            try:
                async with calls.opened():
                    await asyncio.sleep(100)
            except SessionError as error:
                found.append(error.code)

        first = asyncio.create_task(call())
        await asyncio.sleep(1)
        calls.cut(WITHDRAWN)
        second = asyncio.create_task(call())
        await asyncio.gather(first, second)
        return found

    assert run(reasons()) == [Code.BROKER_WITHDRAWN, Code.BROKER_TIMEOUT]


def test_a_guest_that_leaves_a_call_that_is_over_takes_no_place(run: Run) -> None:
    async def late() -> None:
        calls = Store().calls(concurrent=1)
        async with calls.opened() as cut:
            pass
        cut(WITHDRAWN)
        async with calls.opened():
            pass

    run(late())
