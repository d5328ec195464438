"""A sign-out during a refresh wins, here and in other processes."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI, Request
from tests.oidc.session.dictionary_stores import DictionaryStore

from fastapi_oidc import OIDC, MemoryRefreshLock, MemorySessionStore, OIDCSession
from fastapi_oidc.testing import TokenRevoked, sign_in
from tests.oidc.flows.steps import AFTER_EXPIRY, LOCAL, copy_of, generation, two_processes
from tests.oidc.interleaving import Gate, Held, another_process, begun
from tests.oidc.machine.ledger import Browser
from tests.oidc.machine.processes import Fault, Mode
from tests.oidc.machine.world import MachineWorld, play_story
from tests.oidc.virtual_time import virtual_monotonic as virtual_monotonic
from tests.oidc.world import LOGIN_URL, World, make_world

SHARED = pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "in another process"])


async def test_refused_refresh_of_a_replaced_session_leaves_the_new_cookie_alone(
    world: World,
) -> None:
    browser, held = await world.signed_in(), Held()
    other_tab = copy_of(browser, world)
    world.op.faults.put("token", held)
    world.time.advance(AFTER_EXPIRY)
    refreshing = begun(other_tab.get("/me"))
    await held.gate.until_reached()
    await sign_in(browser, f"{LOGIN_URL}&prompt=login", user="bob")
    held.gate.opened.set()
    answer = await refreshing
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers, "it would come after the cookie of the new login"


@SHARED
@pytest.mark.parametrize("first", [False, True], ids=["before", "after"])
async def test_sign_out_while_the_provider_responds_wins(
    processes: tuple[World, World], elsewhere: bool, first: bool
) -> None:
    """Before and after the provider has used the refresh token."""
    here, there = processes
    browser, held = await here.signed_in(), Held(first=first)
    here.op.faults.put("token", held)
    here.time.advance(AFTER_EXPIRY)
    refreshing = begun(copy_of(browser, here).get("/me"))
    await held.gate.until_reached()
    await copy_of(browser, there if elsewhere else here).post("/auth/logout", data=LOCAL)
    revoked = len(here.op.record.of(TokenRevoked))
    held.gate.opened.set()
    answer = await refreshing
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    if first:
        assert len(here.op.record.of(TokenRevoked)) == revoked + 1, "the new tokens are given back"
    for seconds in (0, 300):
        here.time.advance(seconds)
        for world in processes:
            assert await generation(copy_of(browser, world)) is None


@pytest.mark.usefixtures("virtual_monotonic")
@SHARED
@pytest.mark.parametrize(
    ("mode", "slow"),
    [
        (Mode(store=True), "replace"),
        (Mode(store=True), "advance"),
        (Mode(records=True, revocations=True), "advance"),
    ],
)
def test_sign_out_while_the_next_session_is_stored_wins(
    mode: Mode, slow: str, elsewhere: bool
) -> None:
    """It is stored, and the reply that says so comes after the sign-out."""

    def story(world: MachineWorld, alice: Browser) -> None:
        copy = world.copy(alice)
        world.fail(0, slow, *([None] if slow == "advance" else []), Fault.LATE_REPLY)
        world.begin("me", copy, 0)
        world.begin("logout", alice, int(elsewhere))
        world.open_gate()
        for number in (0, 1):
            assert world.asked("me", copy, number) == 401

    play_story(mode, story)


class ThreeMethods(DictionaryStore):
    """A dictionary whose rows are set when the gate is opened; `replace` takes two steps."""

    gate: Gate | None = None

    async def set(self, id: str, session: OIDCSession[Any], /) -> None:
        if self.gate is not None:
            await self.gate.passed()
        await super().set(id, session)


@pytest.mark.parametrize(
    ("elsewhere", "has_records"), [(False, False), (False, True), (True, True)]
)
async def test_sign_out_while_a_store_sets_a_row_leaves_no_row(
    elsewhere: bool, has_records: bool
) -> None:
    store = ThreeMethods()
    lock = MemoryRefreshLock() if has_records else None
    shared: dict[str, Any] = {"session_store": store, "refresh_lock": lock}
    here = make_world(back_channel_logout_store=None, **shared)
    there = another_process(here, **shared)
    browser = await here.signed_in()
    gate = store.gate = Gate()
    here.time.advance(AFTER_EXPIRY)
    refreshing = begun(copy_of(browser, here).get("/me"))
    await gate.until_reached()
    await copy_of(browser, there if elsewhere else here).post("/auth/logout", data=LOCAL)
    gate.opened.set()
    assert (await refreshing).status_code == 401
    assert store.rows == {}


async def test_row_deleted_by_the_application_is_not_stored_again() -> None:
    store, held = MemorySessionStore[Any](), Held()
    world = make_world(session_store=store)
    browser = await world.signed_in()
    world.op.faults.put("token", held)
    world.time.advance(AFTER_EXPIRY)
    refreshing = begun(browser.get("/me"))
    await held.gate.until_reached()
    found = await store.find_by_session_id(str(world.events[-1].session_id))
    assert found is not None
    await store.delete(found[0])
    held.gate.opened.set()
    assert (await refreshing).status_code == 401
    assert await store.get(found[0]) is None


async def test_clear_session_during_a_refresh_wins(mode: str) -> None:
    gate = Gate()

    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.get("/clear")
        async def clear(request: Request) -> None:
            await gate.passed()
            oidc.clear_session(request)

    here, there = two_processes(mode, mount=mount)
    browser = await here.signed_in()
    clearing = begun(browser.get("/clear"))
    await gate.until_reached()
    held = Held(first=True)
    here.op.faults.put("token", held)
    here.time.advance(AFTER_EXPIRY)
    refreshing = begun(copy_of(browser, here).get("/me"))
    await held.gate.until_reached()
    gate.opened.set()
    assert "session=; Max-Age=0" in (await clearing).headers["set-cookie"]
    held.gate.opened.set()
    answer = await refreshing
    assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)
    assert await generation(copy_of(browser, there)) is None
