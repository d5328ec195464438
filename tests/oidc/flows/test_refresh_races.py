"""A refresh and a sign-out at the same time: the sign-out wins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from fastapi_oidc import Clock, MemoryRefreshLock, MemorySessionStore, OIDCSession
from fastapi_oidc.flows.refresh_outcomes import Renewed
from fastapi_oidc.session.keeper import Kept
from fastapi_oidc.testing import OAuthError, TokenRevoked
from fastapi_oidc.testing.faults import Answer
from tests.oidc.flows.test_refresher import Site, signed_in, successor
from tests.oidc.interleaving import Gate, Held, another_process, begun
from tests.oidc.world import Time, World, make_world

LONG_AFTER = 400


async def test_signing_out_during_a_refresh_stays_signed_out(world: World) -> None:
    browser = await world.signed_in()
    async with world.browser() as other_tab:
        other_tab.cookies.update(dict(browser.cookies))
        held = Held()
        world.op.faults.put("token", held)
        world.time.advance(LONG_AFTER)
        refreshing = begun(other_tab.get("/me"))
        await held.gate.until_reached()
        await browser.post("/auth/logout", data={"local": "1"})
        held.gate.opened.set()
        assert (await refreshing).status_code == 401
        assert (await other_tab.get("/me")).status_code == 401


async def test_a_sign_out_in_another_process_is_not_undone() -> None:
    kept: set[str] = set()

    class Watched(MemorySessionStore[Any]):
        async def set(self, id: str, session: OIDCSession[Any], /) -> None:
            kept.add(id)
            await super().set(id, session)

    store, held = Watched(), Held()
    world = make_world(session_store=store)
    browser = await world.signed_in()
    world.op.faults.put("token", held)
    world.time.advance(LONG_AFTER)
    refreshing = begun(browser.get("/me"))
    await held.gate.until_reached()
    for id in kept:
        await store.delete(id)
    held.gate.opened.set()
    assert (await refreshing).status_code == 401
    assert [await store.get(id) for id in kept] == [None]


class SlowStore(MemorySessionStore[Any]):
    """Replaces a row at once, and says so when the gate is opened."""

    def __init__(self, time: Time, gate: Gate) -> None:
        super().__init__(clock=Clock(read=time))
        self._gate = gate

    async def replace(self, id: str, session: OIDCSession[Any], /) -> bool:
        replaced = await super().replace(id, session)
        await self._gate.passed()
        return replaced


async def test_signing_out_while_the_successor_is_saved_revokes_its_tokens() -> None:
    time, gate = Time(), Gate()
    world = make_world(time=time, session_store=SlowStore(time, gate))
    browser = await world.signed_in()
    time.advance(LONG_AFTER)
    refreshing = begun(browser.get("/me"))
    await gate.until_reached()
    await browser.post("/auth/logout", data={"local": "1"})
    before = len(world.op.record.of(TokenRevoked))
    gate.opened.set()
    assert (await refreshing).status_code == 401
    assert len(world.op.record.of(TokenRevoked)) == before + 1


class SlowPlainStore:
    """A store of three methods, whose rows are set when the gate is opened."""

    def __init__(self) -> None:
        self.rows: dict[str, OIDCSession[Any]] = {}
        self.gate: Gate | None = None

    def get(self, id: str, /) -> OIDCSession[Any] | None:
        return self.rows.get(id)

    async def set(self, id: str, session: OIDCSession[Any], /) -> None:
        if self.gate is not None:
            await self.gate.passed()
        self.rows[id] = session

    def delete(self, id: str, /) -> None:
        self.rows.pop(id, None)


async def test_signing_out_while_a_store_of_three_methods_sets_the_successor_leaves_no_row() -> (
    None
):
    time, store = Time(), SlowPlainStore()
    world = make_world(time=time, session_store=store)
    browser = await world.signed_in()
    cookies = dict(browser.cookies)
    gate = store.gate = Gate()
    time.advance(LONG_AFTER)
    refreshing = begun(browser.get("/me"))
    await gate.until_reached()
    await browser.post("/auth/logout", data={"local": "1"})
    gate.opened.set()
    assert (await refreshing).status_code == 401
    thief = another_process(world, session_store=store).browser()
    thief.cookies.update(cookies)
    assert (await thief.get("/me")).status_code == 401


class SlowLock(MemoryRefreshLock):
    """Hands a run's result on when the gate is opened."""

    gate: Gate | None = None

    async def run_exclusive(
        self, session_id: str, operation: Callable[[], Awaitable[bytes]], /
    ) -> bytes:
        result = await super().run_exclusive(session_id, operation)
        if self.gate is not None:
            await self.gate.passed()
        return result


async def test_signing_out_while_the_lock_is_released_stays_signed_out() -> None:
    time, gate = Time(), Gate()
    lock = SlowLock(clock=Clock(read=time))
    world = make_world(time=time, refresh_lock=lock)
    browser = await world.signed_in()
    lock.gate = gate
    time.advance(LONG_AFTER)
    refreshing = begun(browser.get("/me"))
    await gate.until_reached()
    await browser.post("/auth/logout", data={"local": "1"})
    gate.opened.set()
    assert (await refreshing).status_code == 401


@dataclass(frozen=True)
class Overtaken:
    """The refresh is refused: another process was faster, with the same refresh token."""

    site: Site
    made: Kept[Any]

    async def happen(self, answer: Answer) -> Response:
        assert await self.site.world.oidc.site.party.keeper.replace(self.made)
        return await OAuthError("invalid_grant").happen(answer)


async def test_whoever_was_refused_goes_on_from_what_a_faster_process_made() -> None:
    site = await signed_in(session_store="memory")
    made = await successor(site.kept)
    site.world.op.faults.put("token", Overtaken(site, made))
    assert await site.refresher.renew(site.kept) == Renewed(made)
    assert await site.refresher.renew(site.kept) == Renewed(made), "and so does the next one"
