"""The `prompt=none` check in a hidden iframe (Session Management 1.0 3.1)."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from fastapi_oidc import Clock, Code, MemoryRefreshLock, PersistContext, SessionError
from fastapi_oidc.testing import AuthorizationRequested, ServerError
from tests.oidc.flows.fallible_stores import fallible
from tests.oidc.flows.test_refresh import LONG_AFTER
from tests.oidc.flows.test_refresh_failures import FailingLock
from tests.oidc.interleaving import Held, another_process, begun, same_browser
from tests.oidc.world import Time, World, make_world

IFRAME = {"sec-fetch-site": "same-origin", "sec-fetch-dest": "iframe", "sec-fetch-mode": "navigate"}


async def check(browser: httpx.AsyncClient, headers: dict[str, str] = IFRAME) -> httpx.Response:
    return await browser.get("/auth/login?silent=1", headers=headers)


def outcome(answer: httpx.Response) -> tuple[str, str]:
    assert answer.status_code == 200, answer.text
    found = re.search(r'data-outcome="([^"]*)" data-code="([^"]*)"', answer.text)
    assert found is not None, answer.text
    return found[1], found[2]


async def me(browser: httpx.AsyncClient) -> Any:
    return (await browser.get("/me")).json()


async def session(browser: httpx.AsyncClient) -> Any:
    return (await browser.get("/auth/session")).json()


async def test_the_same_user_renews_the_session_in_place(world: World) -> None:
    browser = await world.signed_in()
    before = await session(browser)
    world.time.advance(60)
    assert outcome(await check(browser)) == ("same_user", "")
    after = await session(browser)
    assert (await me(browser))["generation"] == 1
    assert after["expires_at"] == before["expires_at"]
    assert world.event_names()[-2:] == ["login.started", "session.refreshed"]
    sent = world.op.record.of(AuthorizationRequested)[-1].parameters
    assert sent["prompt"] == "none"
    assert sent["id_token_hint"].startswith("ey")


async def test_a_check_brings_the_identity_of_now(world: World) -> None:
    browser = await world.signed_in()
    world.op.edits.put("userinfo", lambda said: said | {"name": "Alice Again"})
    assert outcome(await check(browser)) == ("same_user", "")
    assert (await me(browser))["identity"]["name"] == "Alice Again"


async def test_after_the_user_authenticated_again_there_the_session_is_refreshed_on(
    world: World,
) -> None:
    """The refresh token of the silent answer belongs to its own ID token (Core 12.2)."""
    browser = await world.signed_in()
    world.time.advance(60)
    assert outcome(await check(browser)) == ("same_user", "")
    world.op.edits.put("id_token", lambda said: said | {"auth_time": int(world.time.now)})
    assert outcome(await check(browser)) == ("same_user", "")
    authenticated_at = int(world.time.now)
    world.op.edits.put("id_token", lambda said: said | {"auth_time": authenticated_at})
    world.time.advance(400)
    assert (await me(browser))["generation"] == 3


async def test_a_refresh_under_way_comes_before_a_check(world: World) -> None:
    browser = await world.signed_in()
    world.time.advance(400)
    held = Held(first=True)
    world.op.faults.put("token", held)
    refreshing = begun(browser.get("/me"))
    await held.gate.until_reached()
    checking = begun(check(browser))
    held.gate.opened.set()
    assert (await refreshing).json()["generation"] == 1
    assert outcome(await checking) == ("same_user", "")
    assert (await me(browser))["generation"] == 2


async def test_a_check_that_the_application_refuses_changes_nothing_here() -> None:
    refuses = False

    def persist(context: PersistContext[Any]) -> None:
        if refuses:
            raise SessionError(Code.SESSION_FORBIDDEN)

    world = make_world(before_session_persist=persist)
    browser = await world.signed_in()
    refuses = True
    assert outcome(await check(browser)) == ("error", "session.forbidden")
    refuses = False
    world.time.advance(400)
    assert (await me(browser))["generation"] == 1


async def test_another_user_changes_nothing_here(world: World) -> None:
    browser = await world.signed_in()
    world.op.edits.put("id_token", lambda said: said | {"sub": "bob"})
    world.op.edits.put("userinfo", lambda said: said | {"sub": "bob"})
    assert outcome(await check(browser)) == ("other_user", "authorization.other_user")
    assert (await me(browser))["sub"] == "alice"
    assert (await me(browser))["generation"] == 0


async def test_a_provider_that_says_no_changes_nothing_here() -> None:
    world = make_world(client={"backchannel_logout_uri": None})
    browser = await world.signed_in()
    await world.op.log_out("alice")
    assert outcome(await check(browser)) == ("error", "authorization.refused")
    assert (await me(browser))["sub"] == "alice"


async def test_a_check_with_the_cookie_from_before_a_refresh_goes_on_from_its_successor(
    world: World,
) -> None:
    browser = await world.signed_in()
    async with world.browser() as other_tab:
        other_tab.cookies.update(dict(browser.cookies))
        world.time.advance(280)
        assert (await me(browser))["generation"] == 1
        assert outcome(await check(other_tab)) == ("same_user", "")
        assert (await me(other_tab))["generation"] == 2


async def test_signing_out_during_the_check_stays_signed_out(world: World) -> None:
    browser, held = await world.signed_in(), Held()
    async with world.browser() as other_tab:
        other_tab.cookies.update(dict(browser.cookies))
        world.op.faults.put("token", held)
        checking = begun(check(other_tab))
        await held.gate.until_reached()
        await browser.post("/auth/logout", data={"local": "1"})
        held.gate.opened.set()
        answer = await checking
    assert outcome(answer)[0] == "error"
    assert "__Host-oidc_session=" not in str(answer.headers.get_list("set-cookie"))
    assert world.events[-1].code in (Code.SESSION_SIGNED_OUT, Code.SESSION_REQUIRED)


async def test_without_a_session_the_provider_is_not_asked(world: World) -> None:
    async with world.browser() as browser:
        assert outcome(await check(browser)) == ("error", "session.required")
    assert world.op.record.calls["authorization"] == 0


async def test_a_provider_that_is_down_is_told_as_such(world: World) -> None:
    browser = await world.signed_in()
    world.op.faults.put("token", ServerError())
    assert outcome(await check(browser)) == ("error", "provider.status")
    assert world.events[-1].code is Code.PROVIDER_STATUS


async def test_a_lock_that_is_down_is_not_told_as_a_sign_out() -> None:
    lock = FailingLock("never")
    world = make_world(refresh_lock=lock)
    browser = await world.signed_in()
    lock.when = "before"
    assert outcome(await check(browser)) == ("error", "session.refresh_postponed")
    lock.when = "never"
    assert outcome(await check(browser)) == ("same_user", "")


@pytest.mark.parametrize("signed_in", [False, True])
async def test_a_lost_transaction_is_told_to_the_iframe(world: World, signed_in: bool) -> None:
    browser = await world.signed_in() if signed_in else world.browser()
    answer = await browser.get("/auth/callback?state=x&code=y", headers=IFRAME)
    assert outcome(answer) == ("error", "authorization.transaction_missing")


@pytest.mark.parametrize(
    "change",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-dest": "document"},
    ],
)
async def test_only_our_own_iframe_may_check(world: World, change: dict[str, str]) -> None:
    browser = await world.signed_in()
    answer = await check(browser, IFRAME | change)
    assert answer.status_code == 403
    assert "session.cross_site" in answer.text


async def test_the_page_cannot_be_framed_by_others_or_run_anything_else(world: World) -> None:
    browser = await world.signed_in()
    headers = (await check(browser)).headers
    assert "frame-ancestors 'self'" in headers["content-security-policy"]
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-frame-options"] == "SAMEORIGIN"
    assert headers["cache-control"] == "no-store"


async def test_form_post_applications_check_by_query() -> None:
    world = make_world(settings={"response_mode": "form_post"})
    browser = await world.signed_in()
    answer = await browser.get("/auth/login?silent=1", headers=IFRAME, follow_redirects=False)
    assert "response_mode" not in parse_qs(urlsplit(answer.headers["location"]).query)
    assert outcome(await check(browser)) == ("same_user", "")


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "in another process"])
async def test_an_answer_that_waits_comes_before_one_without_a_refresh_token(
    elsewhere: bool,
) -> None:
    """Else the session would keep a refresh token that is used up."""
    time = Time()
    store, options = fallible("store", time)
    options["refresh_lock"] = MemoryRefreshLock(clock=Clock(read=time))
    here = make_world(time=time, **options)
    there = another_process(here, **options)
    browser = await here.signed_in()
    time.advance(LONG_AFTER)
    store.is_down, store.failing = True, frozenset({"replace"})
    assert (await browser.get("/me")).status_code == 503
    store.is_down = False
    here.op.edits.put("token_response", without_refresh_token)
    asked = same_browser(browser, there) if elsewhere else browser
    assert outcome(await check(asked)) == ("same_user", "")
    here.op.edits.clear()
    time.advance(LONG_AFTER)
    assert (await asked.get("/me")).json()["generation"] == 3


def without_refresh_token(said: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if name != "refresh_token"}
