"""Logins that continue the session of the browser: silent ones and step-ups."""

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from fastapi import Depends, FastAPI

from fastapi_oidc import OIDC, Code, OIDCSession, PersistContext, SessionError
from fastapi_oidc.testing import AuthorizationRequested
from tests.oidc.flows.fallible_stores import fallible_world
from tests.oidc.flows.steps import (
    AFTER_EXPIRY,
    LOCAL,
    callback_url,
    copy_of,
    generation,
    signed_out,
    two_processes,
    until,
    user,
)
from tests.oidc.interleaving import Gate, Held, begun
from tests.oidc.world import World, make_world, signed_in_world

IFRAME = {"sec-fetch-site": "same-origin", "sec-fetch-dest": "iframe", "sec-fetch-mode": "navigate"}
SAME_USER = ("same_user", "")


async def check(browser: httpx.AsyncClient, headers: dict[str, str] = IFRAME) -> httpx.Response:
    return await browser.get("/auth/login?silent=1", headers=headers)


async def silent_callback(browser: httpx.AsyncClient) -> str:
    """Where the provider sends the hidden iframe of a silent login."""
    url = "/auth/login?silent=1"
    while "/auth/callback" not in url:
        answer = await browser.get(url, headers=IFRAME, follow_redirects=False)
        url = answer.headers["location"]
    return url


def outcome(answer: httpx.Response) -> tuple[str, str]:
    """What the page tells the script that opened the iframe."""
    assert answer.status_code == 200, answer.text
    found = re.search(r'data-outcome="([^"]*)" data-code="([^"]*)"', answer.text)
    assert found is not None, answer.text
    return found[1], found[2]


async def test_check_renews_the_session_of_the_same_user(world: World) -> None:
    browser = await world.signed_in()
    before = (await browser.get("/auth/session")).json()
    world.time.advance(60)
    world.op.edits.put("userinfo", lambda said: said | {"name": "Alice Again"})
    assert outcome(await check(browser)) == SAME_USER
    after = (await browser.get("/auth/session")).json()
    assert await generation(browser) == 1
    assert after["expires_at"] == before["expires_at"]
    assert after["identity"]["name"] == "Alice Again"
    assert world.event_names()[-2:] == ["login.started", "session.refreshed"]
    sent = world.op.record.of(AuthorizationRequested)[-1].parameters
    assert sent["prompt"] == "none"
    assert sent["id_token_hint"].startswith("ey")


async def test_check_returns_by_query_and_without_max_age() -> None:
    _, browser = await signed_in_world(settings={"response_mode": "form_post", "max_age": 600})
    answer = await browser.get("/auth/login?silent=1", headers=IFRAME, follow_redirects=False)
    query = parse_qs(urlsplit(answer.headers["location"]).query)
    assert query.keys().isdisjoint({"response_mode", "max_age"})
    assert outcome(await check(browser)) == SAME_USER


async def test_session_is_refreshed_after_the_user_authenticated_again(world: World) -> None:
    """The refresh token of the check belongs to the check's own ID token (Core 12.2)."""
    browser = await world.signed_in()
    world.time.advance(60)
    authenticated_at = int(world.time.now)
    world.op.edits.put("id_token", lambda said: said | {"auth_time": authenticated_at})
    assert outcome(await check(browser)) == SAME_USER
    world.time.advance(AFTER_EXPIRY)
    assert await generation(browser) == 2


async def test_check_of_another_user_changes_nothing(world: World) -> None:
    browser = await world.signed_in()
    for message in ("id_token", "userinfo"):
        world.op.edits.put(message, lambda said: said | {"sub": "bob"})
    assert outcome(await check(browser)) == ("other_user", "authorization.other_user")
    assert world.op.record.calls["revocation"] == 1, "nobody has a use for the tokens"
    assert (await user(browser), await generation(browser)) == ("alice", 0)


async def test_check_that_the_provider_refuses_changes_nothing() -> None:
    world, browser = await signed_in_world(client={"backchannel_logout_uri": None})
    await world.op.log_out("alice")
    assert outcome(await check(browser)) == ("error", "authorization.refused")
    assert await generation(browser) == 0


async def test_check_that_the_application_refuses_changes_nothing() -> None:
    refuses = False

    def persist(_context: PersistContext[Any]) -> None:
        if refuses:
            raise SessionError(Code.SESSION_FORBIDDEN)

    world, browser = await signed_in_world(before_session_persist=persist)
    refuses = True
    assert outcome(await check(browser)) == ("error", "session.forbidden")
    assert world.op.record.calls["revocation"] == 0, "the session may share the grant"
    refuses = False
    world.time.advance(AFTER_EXPIRY)
    assert await generation(browser) == 1


@pytest.mark.parametrize("late", [0, 10**8], ids=["just now", "and is forgotten"])
async def test_a_session_that_expires_during_its_check_has_expired(late: int) -> None:
    def persist(context: PersistContext[Any]) -> None:
        if context.reason == "refresh":
            world.time.now = context.session.expires_at + late

    world = make_world(session_store="memory", before_session_persist=persist)
    result, code = outcome(await check(await world.signed_in()))
    assert (result, code == "session.expired") == ("error", late > 0)
    assert "session.refreshed" not in world.event_names()


async def test_new_sid_does_not_escape_the_revocation_of_the_former(mode: str) -> None:
    """The check confirms the session with another session at the provider."""

    async def revoke(context: PersistContext[Any]) -> None:
        if context.reason == "refresh":
            [sid] = {event.sid for event in world.events} - {None}
            await world.oidc.revoke(sid=sid)

    store = "memory" if mode == "store" else None
    world, browser = await signed_in_world(session_store=store, before_session_persist=revoke)
    copy = copy_of(browser, world)
    world.op.edits.put("id_token", lambda said: said | {"sid": "another"})
    await check(browser)
    assert [await user(each) for each in (browser, copy)] == [None, None]


async def test_check_without_a_session_asks_the_provider_nothing(world: World) -> None:
    assert outcome(await check(world.browser())) == ("error", "session.required")
    assert world.op.record.calls["authorization"] == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [("site", "cross-site"), ("site", "same-site"), ("site", "none"), ("dest", "document")],
)
async def test_only_an_iframe_of_this_site_may_check(name: str, value: str) -> None:
    browser = await make_world().signed_in()
    answer = await check(browser, IFRAME | {f"sec-fetch-{name}": value})
    assert answer.status_code == 403
    assert "session.cross_site" in answer.text


STEP_UP = "/auth/login?max_age=60&return_to=/who"


def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.get("/who")
    async def who(session: OIDCSession[Any] = Depends(oidc.require_auth)) -> list[object]:
        return [session.id, session.auth_time]


async def who(browser: httpx.AsyncClient) -> Any:
    return (await browser.get("/who")).json()


async def test_copies_of_the_cookie_from_before_are_refused_and_end_nothing(mode: str) -> None:
    """Somebody else may have one; it signs nobody out, and is no end of its session."""
    here, there = two_processes(mode, mount=mount)
    browser = await here.signed_in()
    copy, *copies = [copy_of(browser, world) for world in (there, here, there)]
    await browser.get(await callback_url(browser, STEP_UP))
    assert here.event_names()[2:5] == ["login.started", "session.refreshed", "login.succeeded"]
    assert [await user(each) for each in (*copies, browser)] == [None, None, "alice"]
    await signed_out(copy_of(copy, there), **LOCAL)
    await copy.get(await callback_url(copy))
    assert [await user(each) for each in (browser, copy)] == ["alice", "alice"]
    assert "session.ended" not in here.event_names()
    await here.oidc.revoke(sub="alice")
    assert await user(browser) is None
    assert here.event_names().count("session.ended") == 1


@pytest.mark.parametrize("moment", ["afterwards", "meanwhile"])
async def test_a_step_up_in_another_tab_continues_the_session_too(mode: str, moment: str) -> None:
    """Its login began with the cookie from before the first step-up.

    If that has no response yet, it brings the same session.
    """
    gate = Gate()

    async def persist(context: PersistContext[Any]) -> None:
        if context.reason == "refresh" and moment == "meanwhile":
            await gate.passed()

    here, there = two_processes(mode, mount=mount, before_session_persist=persist)
    browser = await here.signed_in()
    [id, _], tab = await who(browser), copy_of(browser, there)
    here.time.advance(120)
    urls = [await callback_url(each, STEP_UP) for each in (browser, tab)]
    first = begun(browser.get(urls[0]))
    await (gate.until_reached() if moment == "meanwhile" else first)
    second = begun(tab.get(urls[1]))
    if moment == "meanwhile":
        await until(lambda: here.op.record.calls["token"] == 3)
        gate.opened.set()
    assert (await second).json()[0] == id
    await first
    refused = moment == "afterwards"
    assert [await generation(each) for each in (browser, tab)] == [None if refused else 2, 2]
    here.time.advance(120)
    await browser.get(await callback_url(browser, STEP_UP, user="bob"))
    assert [await user(each) for each in (browser, tab)] == ["bob", "alice" if refused else None]


async def test_a_refresh_under_way_elsewhere_is_completed_first(mode: str) -> None:
    """And its copy of the cookie is refused like all others."""
    here, there = two_processes(mode, mount=mount)
    browser = await here.signed_in()
    before = await who(browser)
    here.time.advance(AFTER_EXPIRY)
    url = await callback_url(browser, STEP_UP)
    copy, held = copy_of(browser, there), Held(first=True)
    here.op.faults.put("token", held)
    refreshing = begun(copy.get("/who"))
    await held.gate.until_reached()
    stepping_up = begun(browser.get(url))
    await until(lambda: here.op.record.calls["token"] == 3)
    held.gate.opened.set()
    assert (await stepping_up).json() == [before[0], before[1] + AFTER_EXPIRY]
    await refreshing
    assert [await user(each) for each in (copy, browser)] == [None, "alice"]


async def test_a_store_that_fails_revokes_nothing_that_the_session_may_need(mode: str) -> None:
    world, outage = fallible_world(mode)
    browser, held = await world.signed_in(), Held(first=True)
    world.op.faults.put("token", held)
    url = await callback_url(browser, STEP_UP)
    stepping_up = begun(browser.get(url))
    await held.gate.until_reached()
    outage.is_down = True
    held.gate.opened.set()
    assert (await stepping_up).status_code == 503
    outage.is_down = False
    assert world.op.record.calls["revocation"] == 0
    assert await user(browser) == "alice"
