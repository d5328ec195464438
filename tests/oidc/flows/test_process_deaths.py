"""A process that dies or stands still at any step of a refresh, in virtual time.

At a step it begins or ends to read or write the store, or to ask the provider. A process that has
died does nothing any more; one that stands still goes on in the end.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import httpx

from fastapi_oidc import Clock, MemoryStore
from fastapi_oidc.session.store import Cell, Store, Stored
from tests.oidc.flows.steps import AFTER_EXPIRY, copy_of, generation, stores_of
from tests.oidc.interleaving import another_process, begun
from tests.oidc.virtual_time import VirtualTimeLoop
from tests.oidc.world import make_world

BEGAN: Final = 1_800_000_000
MOST_STEPS: Final = 40
"""Of a refresh; there are about fifteen."""

Result = TypeVar("Result")


class Process:
    """Counts the steps of one process; at step `stops_at` it stops until `goes_on` is set."""

    def __init__(self) -> None:
        self.steps, self.stops_at = 0, 0
        self.where = ""
        self.goes_on, self.stopped = asyncio.Event(), False

    async def step(self, where: str) -> None:
        self.steps += 1
        if self.steps == self.stops_at:
            self.where, self.stopped = where, True
        if self.stopped:
            await self.goes_on.wait()

    async def around(self, what: str, work: Callable[[], Awaitable[Result]]) -> Result:
        await self.step(f"before {what}")
        result = await work()
        await self.step(f"after {what}")
        return result


class Link(Store):
    """The connection of one process to the store."""

    def __init__(self, store: Store, process: Process) -> None:
        self.store, self.process = store, process

    async def read(self, keys: Sequence[str], /) -> Sequence[bytes]:
        return await self.process.around("read", lambda: self.store.read(keys))

    async def swap(self, key: str, before: bytes | None, after: Cell, /) -> Stored | None:
        return await self.process.around("swap", lambda: self.store.swap(key, before, after))


class Network(httpx.AsyncBaseTransport):
    """The connection of one process to the provider."""

    inner: httpx.AsyncBaseTransport

    def __init__(self, process: Process) -> None:
        self.process = process

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        return await self.process.around(path, lambda: self.inner.handle_async_request(request))


class Place:
    """Two processes, the first of which can stop, and alice's expired session."""

    def __init__(self, mode: str, loop: VirtualTimeLoop) -> None:
        self.loop, self.process = loop, Process()
        clock = Clock(read=lambda: BEGAN + loop.seconds)
        store = MemoryStore(clock=clock)
        network = Network(self.process)
        self.here = make_world(
            time=lambda: BEGAN + loop.seconds,  # type: ignore[arg-type]
            transport=network,
            **stores_of(mode, Link(store, self.process)),
        )
        network.inner = httpx.ASGITransport(self.here.op.app)
        self.there = another_process(self.here, **stores_of(mode, store))

    @property
    def presented(self) -> int:
        """How many refresh tokens were presented; one code was exchanged."""
        return self.here.op.record.calls["token"] - 1

    async def stopped_at(self, step: int) -> tuple[httpx.AsyncClient, asyncio.Task[Any]]:
        """The browser, and the request whose process stops at its step number `step`."""
        browser = await self.here.signed_in()
        await asyncio.sleep(AFTER_EXPIRY)
        self.process.steps, self.process.stops_at = 0, step
        request = begun(copy_of(browser, self.here).get("/me"))
        await asyncio.sleep(0.001)
        return browser, request


def play(mode: str, story: Callable[[Place], Awaitable[bool]]) -> bool:
    loop = VirtualTimeLoop()

    async def whole() -> bool:
        return await story(Place(mode, loop))

    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(whole())
    finally:
        loop.end()


def at_each_step(mode: str, story: Callable[[Place, int], Awaitable[bool]]) -> None:
    """Play the story with each step, until the refresh has fewer; it says whether it stopped."""
    for step in range(1, MOST_STEPS):
        if not play(mode, lambda place, step=step: story(place, step)):  # type: ignore[misc]
            assert step > 8
            return
    raise AssertionError("the refresh has too many steps")


def test_another_process_goes_on_when_one_dies_at_any_step(mode: str) -> None:
    """It knows after 10 to 15 seconds. The session is lost only where the response was."""

    async def story(place: Place, step: int) -> bool:
        browser, request = await place.stopped_at(step)
        if not place.process.stopped:
            assert (await request).json()["generation"] == 1
            return False
        where, presented, began = place.process.where, place.presented, place.loop.seconds
        request.cancel()
        after = await generation(copy_of(browser, place.there))
        seconds = place.loop.seconds - began
        assert seconds < 15, where
        is_lost = presented == 1 and after is None
        assert is_lost or after == 1, where
        assert place.presented == (2 if is_lost else 1), where
        if is_lost:
            assert where in ("after /token", "before swap"), "the response was not stored"
        return True

    at_each_step(mode, story)


def test_process_that_stands_still_presents_nothing_twice(mode: str) -> None:
    """Another one goes on meanwhile, and refreshes the session once more."""

    async def story(place: Place, step: int) -> bool:
        browser, request = await place.stopped_at(step)
        if not place.process.stopped:
            await request
            return False
        where, in_time = place.process.where, place.presented
        other = copy_of(browser, place.there)
        first = await generation(other)
        if "/token" not in where and not (in_time and first is None):
            assert first == 1, where
            await asyncio.sleep(AFTER_EXPIRY)
            assert await generation(other) == 2, where
            assert place.presented == 2, where
        before = place.presented
        place.process.goes_on.set()
        answer = await request
        assert answer.status_code in (200, 401, 503), where
        excused = where == "before /token"  # it was on its way already
        assert place.presented == before + excused, where
        if first is not None and not excused:
            assert await generation(other) == await generation(copy_of(browser, place.here)), where
        return True

    at_each_step(mode, story)
