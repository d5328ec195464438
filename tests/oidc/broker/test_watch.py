"""How long a call goes on after its access has ended elsewhere, or while the store is silent."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, cast

import pytest

from fastapi_oidc import Code, SessionError
from fastapi_oidc.broker import Access, Limits, Refused, Use
from fastapi_oidc.broker.guest import POLL_SECONDS, SILENT_SECONDS, Call, GuestApp
from tests.oidc.virtual_time import VirtualTimeLoop

Run = Callable[[Coroutine[Any, Any, Any]], Any]
WITHDRAWN = Refused(Code.BROKER_WITHDRAWN)
DOWN = SessionError(Code.SESSION_STORE_UNAVAILABLE)
ACCESS = Access(id="1", machine="m1", issuer="", sub="", until=0, routes=(), session_id="", keys=())


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
        self.judged, self.recorded, self.told = list[float](), list[Use](), list[Any]()

    async def judge(self, *_: object) -> None:
        now = asyncio.get_running_loop().time()
        self.judged.append(now)
        if self.at <= now < self.until and self.error is not None:
            raise self.error

    async def change(self, access: Access, rule: Callable[[Access], Access]) -> None:
        await self.judge(access)
        self.recorded.append(rule(access).use)

    def announce(self, *_: object, code: Code | None, **__: object) -> None:
        self.told.append(code)

    def app(self, length: float, **limits: Any) -> "Sleeping":
        app = Sleeping(ACCESS, cast("Any", self), {}, Limits(**{"seconds": 3600} | limits))
        app.length = length
        return app


class Sleeping(GuestApp):
    """Each call takes a time."""

    length: float

    async def _pass_on(self, call: Call) -> None:
        await asyncio.sleep(self.length)

    async def call(self, send: Any = None) -> float:
        """How long a call goes on."""
        began = (loop := asyncio.get_running_loop()).time()
        asgi: Any = _never, send or _nowhere
        await self({"type": "http", "headers": []}, *asgi)
        return loop.time() - began


async def _nowhere(_: object) -> None:
    pass


async def _never(*_: object) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("at", [0.0, 0.3, 0.999, 5.5])
def test_an_end_elsewhere_cuts_a_call_within_the_bound(run: Run, at: float) -> None:
    store = Store(WITHDRAWN, at=at)
    assert at <= run(store.app(100).call()) <= at + POLL_SECONDS
    assert store.told == [Code.BROKER_WITHDRAWN]


@pytest.mark.parametrize("error", [DOWN, RuntimeError()])
def test_a_call_does_not_go_on_when_its_access_is_not_known_to_last(
    run: Run, error: Exception
) -> None:
    store = Store(error, at=10.5)
    assert 10.5 < run(store.app(100).call()) <= 10.5 + POLL_SECONDS
    assert store.told == [Code.SESSION_STORE_UNAVAILABLE]


def test_a_store_that_never_responds_cuts_a_call_within_the_bound(run: Run) -> None:
    store = Store()
    store.judge = _never  # type: ignore[method-assign]
    assert run(store.app(100).call()) <= POLL_SECONDS + SILENT_SECONDS


def test_calls_that_follow_one_another_are_watched_and_recorded_together(run: Run) -> None:
    store = Store()

    async def many() -> None:
        app = store.app(0.25)
        for _ in range(40):
            await app.call()
        await asyncio.sleep(2)

    run(many())
    assert len(store.judged) <= 22
    assert sum(each.calls for each in store.recorded) == 40
    assert len(store.recorded) <= 11


def test_each_call_is_told_its_own_reason(run: Run) -> None:
    store = Store()

    async def reasons() -> None:
        app = store.app(100, seconds=3)
        first = asyncio.create_task(app.call())
        await asyncio.sleep(1)
        app.cut(WITHDRAWN)
        await asyncio.gather(first, app.call())

    run(reasons())
    assert store.told == [Code.BROKER_WITHDRAWN, Code.BROKER_TIMEOUT]


def test_what_a_call_has_cost_is_stored_also_after_a_look_that_has_failed(run: Run) -> None:
    store = Store(DOWN, until=1.5)

    async def fails() -> None:
        await store.app(0.5).call()
        await asyncio.sleep(2 * POLL_SECONDS)

    run(fails())
    assert [each.calls for each in store.recorded] == [1]


def test_a_refusal_that_is_not_read_ends(run: Run) -> None:
    assert run(Store().app(9, concurrent=0).call(send=_never)) == SILENT_SECONDS
