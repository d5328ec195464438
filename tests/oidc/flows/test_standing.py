"""The session cookie of an answer, by where its request stood and what happened meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from fastapi_oidc import Clock, Code, MemoryRefreshLock, MemorySessionStore
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.standing import Begun, Changes, Goes, Left, Over, cookie_changes
from fastapi_oidc.session.keeper import Kept
from fastapi_oidc.session.model import OIDCSession
from tests.oidc.flows.fallible_stores import fallible
from tests.oidc.interleaving import another_process
from tests.oidc.world import Time, World, make_world


class Site:
    """A world in which somebody has signed in, and what is kept of that."""

    def __init__(self, world: World, kept: Kept[Any]) -> None:
        self.world, self.kept = world, kept
        self.party: RelyingParty[Any] = world.oidc.site.party

    def after(self, generation: int) -> Kept[Any]:
        """The session after so many refreshes."""
        changes = {"generation": generation}
        return Kept(self.kept.session.model_copy(update=changes), self.kept.reference)

    def ends(self, reason: Any) -> None:
        """In this process."""
        session = self.kept.session
        self.party.register.end(session.id, reason, ends=session.expires_at)

    async def led_to(self, changes: Changes) -> OIDCSession[Any] | None:
        """The session to which a browser's cookies lead that were set so."""
        found = await self.party.keeper.read({each.name: each.value or "" for each in changes})
        return None if found is None else found.kept.session

    def are_clearing(self, changes: Changes) -> bool:
        return changes == self.party.keeper.clearing() != ()


async def a_site(**options: Any) -> Site:
    world = make_world(**options)
    browser = await world.signed_in()
    found = await world.oidc.site.party.keeper.read(dict(browser.cookies))
    assert found is not None
    return Site(world, found.kept)


@pytest.fixture(params=[None, "memory"], ids=["cookie", "store"])
async def site(request: pytest.FixtureRequest) -> Site:
    return await a_site(session_store=request.param)


async def in_cookies() -> Site:
    return await a_site()


@pytest.mark.parametrize("made", [Begun, Goes])
async def test_of_a_session_that_goes_on_it_leads_to_it(site: Site, made: Any) -> None:
    changes = await cookie_changes(site.party, made(site.kept))
    assert await site.led_to(changes) == site.kept.session


@pytest.mark.parametrize("made", [Begun, Goes])
async def test_it_leads_to_the_newest_state(made: Any) -> None:
    site = await in_cookies()
    site.party.register.keep(newest := site.after(2))
    changes = await cookie_changes(site.party, made(site.after(1)))
    assert await site.led_to(changes) == newest.session


async def test_also_when_another_process_left_it() -> None:
    time = Time()
    shared: dict[str, Any] = {"refresh_lock": MemoryRefreshLock(clock=Clock(read=time))}
    site = await a_site(time=time, **shared)
    elsewhere = another_process(site.world, **shared).oidc.site.party
    assert elsewhere.shared is not None
    await elsewhere.shared.done("the second refresh", newest := site.after(2))
    for standing in (Goes(site.after(1)), Over(site.after(1), "expired")):
        changes = await cookie_changes(site.party, standing)
        assert await site.led_to(changes) == newest.session


@pytest.mark.parametrize("made", [Begun, Goes])
async def test_of_a_session_that_ended_here_meanwhile_there_is_none(site: Site, made: Any) -> None:
    site.ends("expired")
    assert await cookie_changes(site.party, made(site.kept)) == ()


async def test_of_a_session_that_a_record_ended_meanwhile_there_is_none(site: Site) -> None:
    await site.world.oidc.revoke(sub="alice")
    assert await cookie_changes(site.party, Goes(site.kept)) == ()


async def test_of_a_row_that_is_gone_there_is_none() -> None:
    site = await a_site(session_store="memory")
    await site.party.keeper.end(site.kept, "signed_out")
    for standing in (Goes(site.kept), Over(site.kept, "expired")):
        assert await cookie_changes(site.party, standing) == ()


async def test_of_a_session_that_is_over_it_is_cleared_and_a_row_removed(site: Site) -> None:
    changes = await cookie_changes(site.party, Over(site.kept, "expired"))
    assert site.are_clearing(changes)
    if site.kept.reference is not None:
        assert await site.party.keeper.reread(site.kept) is None


async def test_a_session_in_a_cookie_that_is_over_needs_no_record() -> None:
    site = await in_cookies()
    await cookie_changes(site.party, Over(site.kept, "expired"))
    found = await site.party.keeper.reread(site.kept)
    assert found is not None
    assert found.ended is None


async def test_a_sign_out_elsewhere_leaves_it_to_that_answer(site: Site) -> None:
    site.ends("signed_out")
    assert await cookie_changes(site.party, Over(site.kept, "expired")) == ()


async def test_a_revocation_in_this_process_clears_it(site: Site) -> None:
    site.ends("revoked")
    assert site.are_clearing(await cookie_changes(site.party, Over(site.kept, "revoked")))


async def test_a_refresh_meanwhile_is_stronger_than_an_end(site: Site) -> None:
    await site.party.keeper.replace(newest := site.after(1))
    site.party.register.keep(newest)
    changes = await cookie_changes(site.party, Over(site.kept, "expired"))
    assert await site.led_to(changes) == newest.session


class Overtaken(MemorySessionStore[Any]):
    """A sign-out comes while the row is removed."""

    site: Site | None = None

    async def delete(self, id: str, /) -> None:
        await super().delete(id)
        if self.site is not None:
            self.site.ends("signed_out")


async def test_a_sign_out_while_the_row_is_removed_leaves_it_to_that_answer() -> None:
    time = Time()
    store = Overtaken(clock=Clock(read=time))
    site = store.site = await a_site(time=time, session_store=store)
    assert await cookie_changes(site.party, Over(site.kept, "expired")) == ()


async def test_a_request_that_signed_out_clears_it(site: Site) -> None:
    assert site.are_clearing(await cookie_changes(site.party, Left()))


@pytest.mark.parametrize("mode", ["cookie", "store"])
async def test_while_a_store_is_down_it_is_withheld(mode: str) -> None:
    time = Time()
    store, shared = fallible(mode, time)
    site = await a_site(time=time, **shared)
    store.is_down = True
    time.advance(1)
    assert await cookie_changes(site.party, Goes(site.kept)) == ()
    event = site.world.events[-1]
    assert (event.name, event.at) == ("session.cookie_withheld", time.now)
    assert event.code in (Code.SESSION_STORE_UNAVAILABLE, Code.SESSION_REVOCATION_UNAVAILABLE)
