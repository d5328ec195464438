"""The `prompt=none` check in a hidden iframe (Session Management 1.0 3.1)."""

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from fastapi_oidc import Code, PersistContext, SessionError
from fastapi_oidc.testing import AuthorizationRequested
from tests.oidc.flows.fallible_stores import WRITTEN, fallible_world
from tests.oidc.flows.steps import AFTER_EXPIRY, copy_of, generation, others_have_run, user
from tests.oidc.interleaving import Held, begun
from tests.oidc.world import World, make_world

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
    world = make_world(settings={"response_mode": "form_post", "max_age": 600})
    browser = await world.signed_in()
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
    world = make_world(client={"backchannel_logout_uri": None})
    browser = await world.signed_in()
    await world.op.log_out("alice")
    assert outcome(await check(browser)) == ("error", "authorization.refused")
    assert await generation(browser) == 0


async def test_check_that_the_application_refuses_changes_nothing() -> None:
    refuses = False

    def persist(_context: PersistContext[Any]) -> None:
        if refuses:
            raise SessionError(Code.SESSION_FORBIDDEN)

    world = make_world(before_session_persist=persist)
    browser = await world.signed_in()
    refuses = True
    assert outcome(await check(browser)) == ("error", "session.forbidden")
    refuses = False
    world.time.advance(AFTER_EXPIRY)
    assert await generation(browser) == 1


async def test_store_that_is_down_changes_nothing(mode: str) -> None:
    world, outage = fallible_world(mode)
    browser = await world.signed_in()
    outage.is_down, outage.failing = True, WRITTEN
    assert outcome(await check(browser)) == ("error", "session.store_unavailable")
    outage.is_down = False
    assert await generation(browser) == 0
    assert outcome(await check(browser)) == SAME_USER


async def test_new_sid_does_not_escape_the_revocation_of_the_former(mode: str) -> None:
    """The check confirms the session with another session at the provider."""

    async def revoke(context: PersistContext[Any]) -> None:
        if context.reason == "refresh":
            [sid] = {event.sid for event in world.events} - {None}
            await world.oidc.revoke(sid=sid)

    store = "memory" if mode == "store" else None
    world = make_world(session_store=store, before_session_persist=revoke)
    browser = await world.signed_in()
    copy = copy_of(browser, world)
    world.op.edits.put("id_token", lambda said: said | {"sid": "another"})
    await check(browser)
    for tab in (browser, copy):
        assert await user(tab) is None


async def test_check_without_a_session_asks_the_provider_nothing(world: World) -> None:
    assert outcome(await check(world.browser())) == ("error", "session.required")
    assert world.op.record.calls["authorization"] == 0


@pytest.mark.parametrize("signed_in", [False, True])
async def test_callback_without_a_transaction_responds_to_the_iframe(
    world: World, signed_in: bool
) -> None:
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
async def test_only_an_iframe_of_this_site_may_check(change: dict[str, str]) -> None:
    browser = await make_world().signed_in()
    answer = await check(browser, IFRAME | change)
    assert answer.status_code == 403
    assert "session.cross_site" in answer.text


async def test_a_check_whose_callback_comes_to_two_processes_sends_its_code_once(
    processes: tuple[World, World],
) -> None:
    """A browser repeats a request whose connection broke; the provider is strict."""
    here, there = processes
    browser, held = await here.signed_in(), Held()
    url, copy = await silent_callback(browser), copy_of(browser, there)
    here.op.faults.put("token", held)
    first = begun(browser.get(url))
    await held.gate.until_reached()
    second = begun(copy.get(url))
    await others_have_run()
    held.gate.opened.set()
    assert [outcome(await each) for each in (first, second)] == [SAME_USER] * 2
    assert here.op.record.calls["token"] == 2
    here.time.advance(AFTER_EXPIRY)
    assert [await generation(each) for each in (browser, copy)] == [2, 2]
