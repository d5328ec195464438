"""What comes of an answer of the provider: a session, or the way back to a login."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from fastapi_oidc import Code, IdentityContext, MemoryRefreshLock, SessionError
from fastapi_oidc.flows import login
from fastapi_oidc.flows.callback import Callback, complete_login, next_second
from fastapi_oidc.flows.outcomes import Failed, Refused, SignedIn
from fastapi_oidc.testing import OAuthError, ServerError
from tests.oidc.flows.test_double_callbacks import callback_url
from tests.oidc.flows.test_silent_login import IFRAME
from tests.oidc.interleaving import another_process
from tests.oidc.world import Time, World, make_world

AN_HOUR = 3600


async def completed(
    world: World, browser: httpx.AsyncClient, url: str
) -> SignedIn[Any] | Refused | Failed:
    site = world.oidc.site
    parameters = httpx.URL(url).params
    brought = Callback(
        {name: parameters.get_list(name) for name in parameters},
        dict(browser.cookies),
    )
    return await complete_login(site.party, site.refresher, site.redemptions, brought)


def pending(browser: httpx.AsyncClient) -> set[str]:
    return {name for name in browser.cookies if "_login_" in name}


def used_up(outcome: SignedIn[Any] | Refused | Failed) -> set[str]:
    return {change.name for change in outcome.changes}


async def test_a_good_answer_is_a_session_and_uses_its_login_up() -> None:
    world = make_world()
    browser = world.browser()
    url = await callback_url(world, browser)
    outcome = await completed(world, browser, url)
    assert isinstance(outcome, SignedIn)
    assert outcome.kept is not None
    assert outcome.session == outcome.kept.session
    assert (outcome.return_to, outcome.silent, outcome.replayed) == ("/me", False, False)
    assert used_up(outcome) == pending(browser) != set()


async def test_the_answer_to_a_silent_check_is_the_session_renewed_in_its_place() -> None:
    world = make_world()
    browser = await world.signed_in()
    asked = await browser.get("/auth/login?silent=1", headers=IFRAME, follow_redirects=False)
    answer = await browser.get(asked.headers["location"], follow_redirects=False)
    outcome = await completed(world, browser, answer.headers["location"])
    assert isinstance(outcome, SignedIn)
    assert outcome.kept is not None, "the browser is to get its cookie"
    assert outcome.session == outcome.kept.session
    assert (outcome.session.generation, outcome.return_to, outcome.silent) == (1, "/", True)
    assert used_up(outcome) == pending(browser) != set()


async def test_a_refused_answer_to_a_silent_check_is_one_for_its_iframe() -> None:
    world = make_world()
    browser = await world.signed_in()
    asked = await browser.get("/auth/login?silent=1", headers=IFRAME, follow_redirects=False)
    answer = await browser.get(asked.headers["location"], follow_redirects=False)
    made_up = answer.headers["location"].replace("iss=", "iss=x")
    outcome = await completed(world, browser, made_up)
    assert isinstance(outcome, Refused)
    assert outcome.silent


async def test_a_path_elsewhere_leads_home_though_it_was_sealed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By an older version, whose rule for paths was another one."""
    world = make_world(settings={"default_return_path": "/home"})
    browser = world.browser()
    with monkeypatch.context() as older:
        older.setattr(login, "same_origin_path", lambda path, default: "//evil.test")
        url = await callback_url(world, browser)
    outcome = await completed(world, browser, url)
    assert isinstance(outcome, SignedIn)
    assert outcome.return_to == "/home"


async def test_the_same_answer_again_is_the_same_session_and_no_new_login() -> None:
    world = make_world()
    browser = world.browser()
    url = await callback_url(world, browser)
    first, again = [await completed(world, browser, url) for _ in range(2)]
    assert isinstance(first, SignedIn)
    assert isinstance(again, SignedIn)
    assert again.replayed
    assert (again.kept, again.return_to) == (first.kept, first.return_to)


async def test_the_same_answer_in_another_process_is_the_same_session_and_no_new_login(
    time: Time, lock: MemoryRefreshLock
) -> None:
    here = make_world(time=time, refresh_lock=lock)
    there = another_process(here, refresh_lock=lock)
    browser = here.browser()
    url = await callback_url(here, browser)
    first, again = [await completed(world, browser, url) for world in (here, there)]
    assert isinstance(first, SignedIn)
    assert isinstance(again, SignedIn)
    assert (first.replayed, again.replayed) == (False, True)
    assert again.session == first.session


async def test_an_old_answer_of_a_browser_that_is_signed_in_goes_home_with_its_session() -> None:
    world = make_world(settings={"default_return_path": "/home"})
    browser = await world.signed_in()
    found = await world.oidc.site.party.keeper.read(dict(browser.cookies))
    assert found is not None
    url = await callback_url(world, browser)
    world.time.advance(AN_HOUR)
    outcome = await completed(world, browser, url)
    assert isinstance(outcome, SignedIn)
    assert (outcome.session, outcome.return_to) == (found.kept.session, "/home")
    assert (outcome.replayed, outcome.kept) == (True, None)
    assert used_up(outcome) == pending(browser) != set(), "a login that is over leaves no cookie"


async def test_an_answer_that_is_refused_uses_its_login_up() -> None:
    world = make_world()
    browser = world.browser()
    url = await callback_url(world, browser)
    world.op.faults.put("token", OAuthError("invalid_grant"))
    outcome = await completed(world, browser, url)
    assert isinstance(outcome, Refused)
    assert (outcome.error.code, outcome.silent) == (Code.TOKEN_INVALID_GRANT, False)
    assert used_up(outcome) == pending(browser) != set()


@pytest.mark.parametrize(
    ("made_up", "code"),
    [
        ("iss=x", Code.AUTHORIZATION_ISSUER_MISMATCH),
        ("other=", Code.AUTHORIZATION_ISSUER_MISSING),
    ],
)
async def test_an_answer_that_another_page_made_up_uses_its_login_up(
    made_up: str, code: Code
) -> None:
    """The provider promises to name itself in its answers (RFC 9207 2.4)."""
    world = make_world()
    browser = world.browser()
    url = await callback_url(world, browser)
    outcome = await completed(world, browser, url.replace("iss=", made_up))
    assert isinstance(outcome, Refused)
    assert outcome.error.code is code
    assert used_up(outcome) == pending(browser) != set()


async def test_an_answer_to_a_login_of_another_browser_is_refused() -> None:
    world = make_world()
    url = await callback_url(world, world.browser())
    outcome = await completed(world, world.browser(), url)
    assert isinstance(outcome, Refused)
    assert outcome.error.code is Code.AUTHORIZATION_TRANSACTION_MISSING
    assert outcome.silent is False


async def test_while_the_provider_cannot_be_asked_nothing_is_used_up() -> None:
    world = make_world()
    browser = world.browser()
    url = await callback_url(world, browser)
    world.op.faults.put("jwks", ServerError(), times=99)
    outcome = await completed(world, browser, url)
    assert isinstance(outcome, Refused)
    assert (outcome.error.code, outcome.changes) == (Code.PROVIDER_STATUS, ())


async def test_an_application_that_fails_uses_the_login_up() -> None:
    def resolve(context: IdentityContext) -> object:
        raise LookupError("nobody")

    world = make_world(resolve_identity=resolve)
    browser = world.browser()
    url = await callback_url(world, browser)
    outcome = await completed(world, browser, url)
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, LookupError)
    assert used_up(outcome) == pending(browser) != set()


async def test_the_next_second_is_a_second_away(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    await next_second()
    assert slept == [1]


async def test_a_lock_that_is_lost_while_a_code_is_redeemed_does_not_redeem_it_again(
    lock: MemoryRefreshLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(_name: str, operation: Callable[[], Awaitable[object]]) -> None:
        await operation()
        raise SessionError(Code.SESSION_LOCK_UNAVAILABLE)

    world = make_world(refresh_lock=lock)
    monkeypatch.setattr(world.oidc.site.party.shared, "once", lost)
    browser = world.browser()
    url = await callback_url(world, browser)
    outcome = await completed(world, browser, url)
    assert isinstance(outcome, Refused)
    assert outcome.error.code is Code.SESSION_LOCK_UNAVAILABLE
    assert world.op.record.calls["token"] == 1
