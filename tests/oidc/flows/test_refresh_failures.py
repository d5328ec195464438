"""What goes wrong around a refresh, here and not at the provider, costs no session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from fastapi import FastAPI, Request

from fastapi_oidc import (
    OIDC,
    Code,
    MemoryRefreshLock,
    MemorySessionStore,
    OIDCSession,
    PersistContext,
    ProviderError,
    SessionError,
)
from fastapi_oidc.testing import Delay, Lifetimes
from tests.oidc.flows.test_refresh import (
    LONG_AFTER,
    SHORTLY_BEFORE_THE_END,
    generation,
    refreshes,
)
from tests.oidc.world import make_world


class Breakable(MemorySessionStore[Any]):
    """Reads well; writes fail while `is_full`."""

    is_full = False

    async def set(self, id: str, session: OIDCSession[Any], /) -> None:
        if self.is_full:
            raise ConnectionError
        await super().set(id, session)


async def test_a_successor_that_could_not_be_saved_is_saved_later() -> None:
    store = Breakable()
    world = make_world(session_store=store)
    browser = await world.signed_in()
    world.time.advance(LONG_AFTER)
    store.is_full = True
    answer = await browser.get("/me")
    assert (answer.status_code, answer.json()["code"]) == (503, "session.store_unavailable")
    world.time.advance(30)
    store.is_full = False
    assert await generation(browser) == 1
    assert refreshes(world) == 1, "the refresh token was used up by the first attempt"


class FailingThirdRead(MemorySessionStore[Any]):
    """Of those since `reads` was set to 0: that of a refresh which was refused."""

    reads = 3

    async def get(self, id: str, /) -> OIDCSession[Any] | None:
        self.reads += 1
        if self.reads == 3:
            raise ConnectionError
        return await super().get(id)


async def test_an_answer_that_ends_the_session_is_kept_until_that_is_known() -> None:
    def before_session_persist(context: PersistContext[Any]) -> None:
        if context.reason == "refresh":
            raise SessionError(Code.SESSION_FORBIDDEN, "no longer employed")

    store = FailingThirdRead()
    world = make_world(session_store=store, before_session_persist=before_session_persist)
    browser = await world.signed_in()
    world.time.advance(LONG_AFTER)
    store.reads = 0
    assert [(await browser.get("/me")).status_code for _ in range(2)] == [503, 401]
    assert refreshes(world) == 1, "the refresh token is presented once"


class FailingLock(MemoryRefreshLock):
    """Fails before its operation, after it, or hands back what another process wrote."""

    def __init__(self, when: str) -> None:
        super().__init__()
        self.when = when

    async def run_exclusive(
        self, session_id: str, operation: Callable[[], Awaitable[bytes]], /
    ) -> bytes:
        if self.when == "before":
            raise ConnectionError
        result = await operation()
        if self.when == "after":
            raise ConnectionError
        return b"sealed with another secret" if self.when == "unreadable" else result


@pytest.mark.parametrize("when", ["after", "unreadable"])
async def test_a_lock_that_fails_after_the_refresh_loses_nothing(when: str) -> None:
    world = make_world(refresh_lock=FailingLock(when))
    browser = await world.signed_in()
    world.time.advance(SHORTLY_BEFORE_THE_END)
    assert await generation(browser) == 1
    assert refreshes(world) == 1


async def test_a_lock_that_fails_postpones_the_refresh() -> None:
    lock = FailingLock("before")
    world = make_world(refresh_lock=lock)
    browser = await world.signed_in()
    world.time.advance(SHORTLY_BEFORE_THE_END)
    assert await generation(browser) == 0
    assert world.events[-1].code is Code.SESSION_LOCK_UNAVAILABLE
    lock.when = "never"
    world.time.advance(10)
    assert await generation(browser) == 1
    assert refreshes(world) == 1


@pytest.mark.parametrize("mode", [None, "memory"])
async def test_a_session_error_of_a_callback_ends_the_session(mode: Any) -> None:
    def before_session_persist(context: PersistContext[Any]) -> None:
        if context.reason == "refresh":
            raise SessionError(Code.SESSION_FORBIDDEN, "no longer employed")

    world = make_world(session_store=mode, before_session_persist=before_session_persist)
    browser = await world.signed_in()
    world.time.advance(LONG_AFTER)
    answer = await browser.get("/")
    assert (answer.status_code, answer.json()) == (200, {"is_authenticated": False})
    assert "session=; Max-Age=0" in answer.headers["set-cookie"]
    assert world.events[-1].code is Code.SESSION_FORBIDDEN
    assert await generation(browser) is None


async def test_another_error_of_ours_in_a_callback_does_not() -> None:
    def before_session_persist(context: PersistContext[Any]) -> None:
        if context.reason == "refresh":
            raise ProviderError(Code.PROVIDER_TIMEOUT, "another provider")

    world = make_world(before_session_persist=before_session_persist)
    browser = await world.signed_in()
    for expected in (1, 2):
        world.time.advance(LONG_AFTER)
        assert await generation(browser) == expected


async def test_a_short_lived_access_token_is_not_refreshed_by_every_request() -> None:
    world = make_world(lifetimes=Lifetimes(access_token=20))
    browser = await world.signed_in()
    assert [await generation(browser) for _ in range(3)] == [0, 0, 0]
    world.time.advance(10)
    assert [await generation(browser) for _ in range(3)] == [1, 1, 1]


async def test_a_session_cleared_during_a_refresh_stays_cleared() -> None:
    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.get("/clear")
        async def clear(request: Request) -> None:
            await asyncio.sleep(0.05)
            oidc.clear_session(request)

    world = make_world(mount=mount)
    browser = await world.signed_in()
    clearing = asyncio.create_task(browser.get("/clear"))
    await asyncio.sleep(0.01)
    async with world.browser() as other_tab:
        other_tab.cookies.update(dict(browser.cookies))
        world.op.faults.put("token", Delay(0.1))
        world.time.advance(LONG_AFTER)
        late = await other_tab.get("/me")
    assert "session=; Max-Age=0" in (await clearing).headers["set-cookie"]
    assert late.status_code == 401
    assert "set-cookie" not in late.headers


async def test_a_refresh_that_everybody_left_leaves_nothing_behind() -> None:
    world = make_world()
    browser = await world.signed_in()
    world.op.faults.put("token", Delay(0.05))
    world.time.advance(LONG_AFTER)
    only = asyncio.create_task(generation(browser))
    await asyncio.sleep(0.02)
    only.cancel()
    await asyncio.sleep(0.1)
    assert refreshes(world) == 1
    assert len(world.oidc.site.refresher._flights) == 0
