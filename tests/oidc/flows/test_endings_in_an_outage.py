"""A session that ends while its store is down: over here at once, and everywhere with the store."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from fastapi import Request

from fastapi_oidc import Code, IdentityContext, SessionError, StandardIdentity
from fastapi_oidc.flows import ending_writer
from fastapi_oidc.session import reference
from fastapi_oidc.testing import TokenRevoked, sign_in
from tests.oidc.flows.fallible_stores import WRITTEN, Fallible, fallible
from tests.oidc.flows.test_endings import copy_of
from tests.oidc.flows.test_refresh import LONG_AFTER, generation
from tests.oidc.interleaving import Held, another_process, begun
from tests.oidc.world import LOGIN_URL, Time, World, make_world

OFTEN = 200


@dataclass(slots=True)
class Outage:
    """An application whose store can be down, and another process of it."""

    world: World
    store: Fallible
    other: World

    @property
    def unwritten(self) -> int:
        return len(self.world.oidc.site.party.endings)

    async def until_written(self) -> None:
        for _ in range(OFTEN):
            if not self.unwritten:
                return
            await asyncio.sleep(0)
        raise AssertionError("the store has not been told")


def an_outage(mode: str, **options: Any) -> Outage:
    time = Time()
    store, shared = fallible(mode, time)
    world = make_world(time=time, **shared, **options)
    return Outage(world, store, another_process(world, **shared))


@pytest.fixture(params=["cookie", "store"])
def outage(request: pytest.FixtureRequest) -> Outage:
    return an_outage(request.param)


async def signed_out_during(outage: Outage) -> httpx.AsyncClient:
    """Another browser, with the cookie of one that signed out while the store was down."""
    browser = await outage.world.signed_in()
    thief = copy_of(browser, outage.other)
    outage.store.is_down = True
    answer = await browser.post("/auth/logout", data={"local": "1"}, follow_redirects=False)
    assert "Max-Age=0" in answer.headers["set-cookie"]
    return thief


async def test_a_copied_cookie_is_worthless_here_as_soon_as_the_store_is_back(
    outage: Outage,
) -> None:
    thief = await signed_out_during(outage)
    outage.store.is_down = False
    assert await generation(copy_of(thief, outage.world)) is None


async def test_and_everywhere_when_a_request_has_found_the_store(outage: Outage) -> None:
    thief = await signed_out_during(outage)
    assert outage.unwritten == 1
    outage.store.is_down = False
    await (await outage.world.signed_in("bob")).get("/me")
    await outage.until_written()
    assert await generation(thief) is None
    names = outage.world.event_names()
    assert names.index("session.not_removed") < names.index("session.removed")


async def test_the_store_is_told_without_any_request(
    outage: Outage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FIRST_PAUSE", "LONGEST_PAUSE"):
        monkeypatch.setattr(ending_writer, name, 0)
    thief = await signed_out_during(outage)
    outage.store.is_down = False
    await outage.until_written()
    assert await generation(thief) is None


async def test_the_store_is_told_when_the_application_ends(outage: Outage) -> None:
    thief = await signed_out_during(outage)
    outage.store.is_down = False
    await outage.world.oidc.site.aclose()
    assert outage.unwritten == 0
    assert await generation(thief) is None


async def test_the_session_of_another_browser_goes_on(outage: Outage) -> None:
    other = await outage.world.signed_in()
    await signed_out_during(outage)
    outage.store.is_down = False
    assert await generation(other) == 0
    await outage.until_written()
    assert await generation(other) == 0


async def test_a_login_in_the_same_browser_is_not_ended_with_it(outage: Outage) -> None:
    browser = await outage.world.signed_in()
    outage.store.is_down = True
    await browser.post("/auth/logout", data={"local": "1"})
    outage.store.is_down = False
    await sign_in(browser, LOGIN_URL, user="alice")
    await outage.until_written()
    assert await generation(browser) == 0


async def test_a_refresh_under_way_does_not_bring_it_back(outage: Outage) -> None:
    browser, held = await outage.world.signed_in(), Held(first=True)
    outage.world.op.faults.put("token", held)
    outage.world.time.advance(LONG_AFTER)
    late = begun(copy_of(browser, outage.world).get("/me"))
    await held.gate.until_reached()
    outage.store.is_down = True
    await browser.post("/auth/logout", data={"local": "1"})
    outage.store.is_down = False
    held.gate.opened.set()
    answer = await late
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    assert outage.world.op.record.of(TokenRevoked)
    await outage.until_written()
    assert await generation(copy_of(browser, outage.other)) is None


async def test_a_session_in_a_cookie_ends_at_the_provider_too() -> None:
    outage = an_outage("cookie")
    browser = await outage.world.signed_in()
    outage.store.is_down = True
    answer = await browser.post("/auth/logout", follow_redirects=False)
    assert "id_token_hint=ey" in answer.headers["location"]
    assert len(outage.world.op.record.of(TokenRevoked)) == 1


async def test_a_cleared_session_is_over_too(outage: Outage) -> None:
    @outage.world.app.post("/forget-me")
    async def forget_me(request: Request) -> None:
        outage.store.is_down = True
        outage.world.oidc.clear_session(request)

    browser = await outage.world.signed_in()
    thief = copy_of(browser, outage.other)
    await browser.post("/forget-me")
    outage.store.is_down = False
    assert await generation(copy_of(thief, outage.world)) is None
    await outage.until_written()
    assert await generation(thief) is None


async def test_a_session_that_the_application_ended_is_over_everywhere() -> None:
    """By a SessionError at a refresh, of which no other process knows."""
    store: Fallible | None = None

    async def resolve(context: IdentityContext) -> StandardIdentity:
        if store is not None:
            store.is_down, store.failing = True, WRITTEN
            raise SessionError(Code.SESSION_FORBIDDEN, "no longer one of us")
        return StandardIdentity(sub=str(context.id_token_claims["sub"]))

    outage = an_outage("cookie", resolve_identity=resolve)
    browser = await outage.world.signed_in()
    thief = copy_of(browser, outage.other)
    store = outage.store
    outage.world.time.advance(LONG_AFTER)
    await browser.get("/me")
    store.is_down = False
    await outage.world.oidc.site.aclose()
    calls = outage.world.op.record.calls["token"]
    assert await generation(thief) is None
    assert outage.world.op.record.calls["token"] == calls


@pytest.mark.parametrize("mode", ["cookie", "store"])
async def test_a_login_that_began_in_the_outage_ends_the_session_before(mode: str) -> None:
    """Its answer is a cross-site form post, which comes without the session cookie."""
    outage = an_outage(mode, settings={"response_mode": "form_post"})
    browser = await outage.world.signed_in()
    thief = copy_of(browser, outage.world)
    before = [name for name in browser.cookies if "session" in name]
    outage.store.is_down = True
    login = await browser.get("/auth/login?return_to=/me", follow_redirects=False)
    outage.store.is_down = False
    for name in before:
        browser.cookies.delete(name)
    await sign_in(browser, login.headers["location"], user="alice")
    assert await generation(browser) == 0
    assert await generation(thief) is None


async def test_a_reference_that_names_no_session_is_cleared_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of 0.1.0."""
    monkeypatch.setattr(reference, "_named", lambda _: b"")
    outage = an_outage("store")
    thief = await signed_out_during(outage)
    assert outage.unwritten == 0
    [event] = [each for each in outage.world.events if each.name == "session.not_removed"]
    assert event.at == outage.world.time.now
    outage.store.is_down = False
    assert await generation(thief) == 0
