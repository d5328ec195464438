"""How long a call goes on after its access has ended elsewhere, or while the store is silent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any

import pytest

from fastapi_oidc import Code, SessionError
from fastapi_oidc.broker.calls import OpenCalls
from fastapi_oidc.broker.limits import POLL_SECONDS, UNSURE_SECONDS, Limits, Refused
from tests.oidc.virtual_time import VirtualTimeLoop

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture
def run() -> Iterator[Run]:
    loop = VirtualTimeLoop()
    yield loop.run_until_complete
    loop.end()


class Access:
    """An access that ends, or whose store fails, at a time of the loop."""

    def __init__(self, error: SessionError | None = None, *, at: float = 0, until: float = 1e9):
        self.error, self.at, self.until, self.judged = error, at, until, list[float]()

    async def judge(self) -> None:
        now = asyncio.get_running_loop().time()
        self.judged.append(now)
        if self.error is not None and self.at <= now < self.until:
            raise self.error


async def length_of_call(judge: Callable[[], Awaitable[object]], seconds: float) -> float:
    """How long a call of `seconds` goes on."""
    loop, calls = asyncio.get_running_loop(), OpenCalls(judge, Limits(seconds=3600))
    began = loop.time()
    try:
        async with calls.opened():
            await asyncio.sleep(seconds)
    except SessionError:
        pass
    return loop.time() - began


WITHDRAWN = Refused(Code.BROKER_WITHDRAWN)
DOWN = SessionError(Code.SESSION_STORE_UNAVAILABLE)


@pytest.mark.parametrize("at", [0.0, 0.3, 0.999, 5.5])
def test_an_end_elsewhere_cuts_a_call_within_the_bound(run: Run, at: float) -> None:
    assert at <= run(length_of_call(Access(WITHDRAWN, at=at).judge, 100)) <= at + POLL_SECONDS


def test_a_call_that_goes_on_is_judged_every_second_and_a_short_one_not_at_all(run: Run) -> None:
    access = Access()
    assert run(length_of_call(access.judge, 0.5)) == 0.5
    assert access.judged == []
    run(length_of_call(access.judge, 10.5))
    assert len(access.judged) in (10, 11)


def test_a_short_outage_cuts_nothing(run: Run) -> None:
    access = Access(DOWN, at=1, until=1 + UNSURE_SECONDS - POLL_SECONDS)
    assert run(length_of_call(access.judge, 30)) == 30


def test_a_long_outage_cuts_a_call_within_the_bound(run: Run) -> None:
    length = run(length_of_call(Access(DOWN, at=10.5).judge, 100))
    assert 10.5 < length <= 10.5 + UNSURE_SECONDS + POLL_SECONDS


def test_a_store_that_never_responds_cuts_a_call_within_the_bound(run: Run) -> None:
    async def silent() -> None:
        await asyncio.Event().wait()

    assert run(length_of_call(silent, 100)) <= UNSURE_SECONDS + 2 * POLL_SECONDS


def test_calls_that_follow_one_another_are_watched_once(run: Run) -> None:
    access = Access()

    async def many() -> None:
        calls = OpenCalls(access.judge, Limits())
        for _ in range(40):
            async with calls.opened():
                await asyncio.sleep(0.25)

    run(many())
    assert len(access.judged) <= 11


def test_each_call_is_told_its_own_reason(run: Run) -> None:
    async def reasons() -> list[Code]:
        calls, found = OpenCalls(Access().judge, Limits(seconds=3)), list[Code]()

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


def test_a_timeout_of_something_within_a_call_is_its_own(run: Run) -> None:
    async def call() -> None:
        async with OpenCalls(Access().judge, Limits()).opened():
            raise TimeoutError

    with pytest.raises(TimeoutError):
        run(call())
