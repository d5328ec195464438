"""Processes that share refresh records present each refresh token once, and lose no session.

A process that dies is one whose request to the provider or to the records never continues.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fastapi_oidc.session.records import RefreshRecord, SealedRecords

from fastapi_oidc import (
    Clock,
    Code,
    MemoryRefreshLock,
    MemorySessionStore,
    OIDCSession,
    RefreshLock,
    SessionError,
)
from fastapi_oidc.testing import OAuthError, ServerError
from tests.oidc.flows.steps import (
    AFTER_EXPIRY,
    RETRY,
    SHORTLY_BEFORE_EXPIRY,
    connected,
    copy_of,
    generation,
    refreshes,
    shared_stores,
    with_connection,
)
from tests.oidc.interleaving import Held, another_process, begun
from tests.oidc.world import Time, World, make_world


def presented(world: World) -> int:
    """How many refresh tokens were presented; one code was exchanged."""
    return world.op.record.calls["token"] - 1


async def test_processes_refresh_a_session_once(processes: tuple[World, World]) -> None:
    here, there = processes
    browser = await here.signed_in()
    tabs = [copy_of(browser, world) for world in (here, there)] * 10
    here.time.advance(AFTER_EXPIRY)
    assert set(await asyncio.gather(*map(generation, tabs))) == {1}
    assert presented(here) == 1


@pytest.mark.parametrize("is_elsewhere", [False, True], ids=["here", "in another process"])
@pytest.mark.parametrize("seconds", [0, 61, 11 * 60])
async def test_old_cookie_gets_the_newest_session_and_presents_no_used_token(
    processes: tuple[World, World], seconds: int, is_elsewhere: bool
) -> None:
    """Its browser lost the response of the refresh."""
    here, there = processes
    browser = await here.signed_in()
    lost = copy_of(browser, there if is_elsewhere else here)
    here.time.advance(AFTER_EXPIRY)
    assert await generation(browser) == 1
    here.time.advance(seconds)
    newest = await generation(lost)
    assert newest == (1 if seconds < 300 else 2), "the token of the first refresh has expired"
    assert await generation(browser) == newest
    assert refreshes(here) == presented(here) == newest


async def test_processes_refresh_a_session_once_when_one_is_refused(
    processes: tuple[World, World],
) -> None:
    here, there = processes
    browser = await here.signed_in()
    here.op.faults.put("token", ServerError())
    here.time.advance(AFTER_EXPIRY)
    assert await generation(browser) is None
    assert await generation(copy_of(browser, there)) == 1, "it need not wait"
    assert presented(here) == 2


async def test_invalid_grant_ends_the_session_in_every_process_with_one_token_call(
    mode: str,
) -> None:
    time = Time()
    shared = shared_stores(mode, time)
    here = make_world(time=time, **shared)
    there = another_process(here, mount=with_connection, **shared)
    worlds = [here, there, *(another_process(here, **shared) for _ in range(2))]
    browser = await here.signed_in()
    connection = await connected(there, copy_of(browser, there))
    here.op.faults.put("token", OAuthError("invalid_grant"), times=9)
    here.time.advance(AFTER_EXPIRY)
    tabs = [copy_of(browser, world) for world in worlds]
    assert await asyncio.gather(*map(generation, tabs)) == [None] * 4
    assert presented(here) == 1
    assert not await there.oidc.is_still_signed_in(connection)
    here.op.faults.clear()
    assert [await generation(copy_of(browser, world)) for world in worlds] == [None] * 4
    assert presented(here) == 1


class Slots(RefreshLock):
    """A lock that only excludes, and can fail before or after its operation."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self.fails = ""

    async def run_exclusive(self, session_id: str, operation: Any, /) -> None:
        if self.fails == "before":
            raise ConnectionError("down")
        async with self._lock:
            await operation()
        if self.fails == "after":
            raise ConnectionError("down")


class Rows(MemorySessionStore[OIDCSession[Any]]):
    """A store without records."""

    records = None  # type: ignore[assignment]


def processes_with_lock() -> tuple[World, World, Slots]:
    time, lock = Time(), Slots()
    shared: dict[str, Any] = {"session_store": Rows(clock=Clock(read=time)), "refresh_lock": lock}
    here = make_world(time=time, **shared)
    return here, another_process(here, **shared), lock


async def unreachable(self: object, id: str) -> RefreshRecord:
    raise SessionError(Code.SESSION_LOCK_UNAVAILABLE, "down")


class Forgetful(MemorySessionStore[Any]):
    """A store that loses what it is given to replace a row, as at a failover."""

    async def replace(self, id: str, session: OIDCSession[Any], /) -> bool:
        return True


async def test_session_whose_refreshed_row_the_store_lost_ends_with_its_access_token() -> None:
    time = Time()
    store = Forgetful(clock=Clock(read=time))
    shared: dict[str, Any] = {"session_store": store, "back_channel_logout_store": None}
    impatient = {"provider_timeout": 1}
    here = make_world(time=time, settings=impatient, **shared)
    there = another_process(here, **shared)
    browser = await here.signed_in()
    time.advance(SHORTLY_BEFORE_EXPIRY)
    assert await generation(browser) == 1, "this process remembers the session that is lost"
    assert await generation(copy_of(browser, there)) == 0, "the access token is valid"
    time.advance(AFTER_EXPIRY)
    assert await generation(copy_of(browser, there)) is None
    (ended,) = [event for event in there.events if event.name == "session.ended"]
    assert (ended.code, ended.explanation) == (
        "session.expired",
        "its store has lost the session that a refresh wrote",
    )
    assert presented(here) == 1
    assert await generation(copy_of(browser, here)) is None, "it is over everywhere"


async def test_old_cookie_does_not_end_a_session_whose_record_was_lost() -> None:
    """Redis restarted empty: its new record knows the generation of the session alone."""
    time = Time()
    impatient = {"provider_timeout": 1}
    before = make_world(time=time, settings=impatient)
    browser = await before.signed_in()
    old = copy_of(browser, before)
    time.advance(AFTER_EXPIRY)
    assert await generation(browser) == 1
    after = another_process(before, refresh_lock=MemoryRefreshLock(clock=Clock(read=time)))
    newest = copy_of(browser, after)
    time.advance(AFTER_EXPIRY)
    before.op.faults.put("token", ServerError(), times=9)
    assert await generation(newest) is None
    assert await generation(copy_of(old, after)) is None
    before.op.faults.clear()
    time.advance(RETRY)
    assert await generation(newest) == 2


async def test_lock_of_the_application_and_a_store_refresh_once() -> None:
    here, there, _ = processes_with_lock()
    browser = await here.signed_in()
    here.time.advance(AFTER_EXPIRY)
    tabs = [copy_of(browser, world) for world in (here, there)]
    assert await asyncio.gather(*map(generation, tabs)) == [1, 1]
    assert presented(here) == 1


@pytest.mark.parametrize(("fails", "expected"), [("before", None), ("after", 1)])
async def test_lock_of_the_application_that_fails_costs_no_session(
    fails: str, expected: int | None
) -> None:
    here, _, lock = processes_with_lock()
    browser = await here.signed_in()
    here.time.advance(AFTER_EXPIRY)
    lock.fails = fails
    assert await generation(browser) == expected
    lock.fails = ""
    here.time.advance(RETRY)
    assert await generation(browser) == 1
    assert presented(here) == 1


@pytest.mark.parametrize("records_are_down", [False, True])
async def test_without_shared_records_a_refused_process_takes_the_row_of_the_other(
    records_are_down: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = Time()
    shared: dict[str, Any] = {"session_store": Rows(clock=Clock(read=time))}
    here = make_world(time=time, **shared)
    there = another_process(here, **shared)
    browser, held = await here.signed_in(), Held()
    here.op.faults.put("token", held)
    here.time.advance(AFTER_EXPIRY)
    refused = begun(browser.get("/me"))
    await held.gate.until_reached()
    assert await generation(copy_of(browser, there)) == 1
    if records_are_down:
        monkeypatch.setattr(SealedRecords, "look", unreachable)
    held.gate.opened.set()  # with the refresh token that the other one has used
    assert (await refused).json()["generation"] == 1
