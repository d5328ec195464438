"""A callback is completed once, however often it comes, and says what became of the login.

The provider is strict: it takes back what it issued for a code that comes twice (RFC 6749 4.1.2).
"""

import secrets
from typing import Any

import httpx
import pytest

from fastapi_oidc import Code, PersistContext, SessionError
from fastapi_oidc.testing import TokenRevoked, sign_in
from tests.oidc.flows.fallible_stores import fallible_world
from tests.oidc.flows.steps import (
    AFTER_EXPIRY,
    callback_url,
    copy_of,
    generation,
    returned,
    shared_stores,
    two_processes,
    user,
)
from tests.oidc.interleaving import Raised, another_process
from tests.oidc.world import LOGIN_URL, Time, make_world

STEP_UP = "/auth/login?max_age=60&return_to=/me"


def pending(browser: httpx.AsyncClient) -> list[str]:
    return [name for name in browser.cookies if "_login_" in name]


@pytest.mark.parametrize(
    ("error", "status", "code", "comes_again"),
    [
        (httpx.ConnectError("refused"), 502, "provider.unreachable", True),
        (httpx.ReadTimeout("silent"), 504, "provider.timeout", False),
    ],
)
async def test_a_code_that_was_not_sent_is_exchanged_at_the_reload(
    error: Exception, status: int, code: str, comes_again: bool
) -> None:
    """One that may have been sent is used up, and a new login works."""
    world = make_world()
    browser = world.browser()
    url = await callback_url(browser)
    world.op.faults.put("token", Raised(error))
    answer = await browser.get(url)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert world.event_names()[-1] == "login.refused"
    assert len(pending(browser)) == comes_again
    assert await returned(browser, url) == ("/me" if comes_again else None)
    assert await user(browser) == ("alice" if comes_again else None)
    assert (await sign_in(browser, LOGIN_URL, user="alice")).status_code == 200


@pytest.mark.parametrize("had", ["now", "then", "both"])
async def test_login_ends_the_sessions_that_its_browser_has_and_had(mode: str, had: str) -> None:
    """A cross-site form post brings the response without the session cookie."""
    here, there = two_processes(mode)
    browser = here.browser()
    copies = []
    if had in ("then", "both"):
        browser = await here.signed_in("bob")
        copies.append(copy_of(browser, there))
    url = await callback_url(browser, f"{LOGIN_URL}&prompt=login")
    for name in [name for name in browser.cookies if "session" in name]:
        browser.cookies.delete(name)
    if had in ("now", "both"):
        now = await here.signed_in("bob")
        copies.append(copy_of(now, there))
        sessions = {name: value for name, value in now.cookies.items() if "session" in name}
        browser.cookies.update(sessions)
    assert await returned(browser, url) == "/me"
    assert [await user(copy) for copy in copies] == [None] * len(copies)


async def test_login_that_began_while_the_store_was_down_ends_the_session_before(mode: str) -> None:
    world, outage = fallible_world(mode)
    browser = await world.signed_in()
    copy = copy_of(browser, world)
    outage.is_down = True
    login = await browser.get(LOGIN_URL, follow_redirects=False)
    outage.is_down = False
    for name in [name for name in browser.cookies if "session" in name]:
        browser.cookies.delete(name)
    await sign_in(browser, login.headers["location"], user="alice")
    assert [await generation(each) for each in (browser, copy)] == [0, None]


@pytest.mark.parametrize("changed", ["client_id", "issuer"])
async def test_session_of_another_client_or_provider_is_none_here(changed: str) -> None:
    world = make_world()
    browser = await world.signed_in()
    update = {changed: "https://another.test", "client_secret": None}
    other = another_process(world, settings=world.oidc.settings.model_copy(update=update))
    assert (await copy_of(browser, other).get("/")).json() == {"is_authenticated": False}


async def test_tokens_of_another_provider_are_not_sent_to_this_one(mode: str) -> None:
    """The settings named another provider when the browser's session began."""
    time = Time()
    options: dict[str, Any] = {
        "time": time,
        "settings": {"cookie_secret": secrets.token_urlsafe(32)},
    }
    stores = shared_stores(mode, time)
    former = make_world(provider={"issuer": "https://former.test"}, **options, **stores)
    world = make_world(**options, **stores)
    browser = copy_of(await former.signed_in(), world)
    copy = copy_of(browser, former)
    assert (await sign_in(browser, STEP_UP, user="alice")).status_code == 200
    assert world.op.record.calls["revocation"] == 0
    assert [await generation(each) for each in (browser, copy)] == [0, None]


@pytest.mark.parametrize(("as_user", "is_revoked"), [("bob", True), ("alice", False)])
async def test_tokens_of_a_replaced_session_are_revoked_unless_they_may_share_a_grant(
    mode: str, as_user: str, is_revoked: bool
) -> None:
    """Revoking one refresh token may end all of the same user's session (RFC 7009 2.1)."""
    world = make_world(session_store="memory" if mode == "store" else None)
    world.op.edits.put("id_token", lambda said: said | {"sid": "the same"})
    browser = await world.signed_in()
    await sign_in(browser, f"{LOGIN_URL}&prompt=login", user=as_user)
    assert await user(browser) == as_user
    assert len(world.op.record.of(TokenRevoked)) == is_revoked
    world.time.advance(AFTER_EXPIRY)
    assert await generation(browser) == 1


async def test_tokens_of_a_refused_login_are_revoked(mode: str) -> None:
    def refuse(_context: PersistContext[Any]) -> None:
        raise SessionError(Code.SESSION_FORBIDDEN, "not on the list")

    store = "memory" if mode == "store" else None
    world = make_world(before_session_persist=refuse, session_store=store)
    answer = await sign_in(world.browser(), LOGIN_URL, user="alice")
    assert (answer.status_code, answer.json()["code"]) == (403, "session.forbidden")
    assert len(world.op.record.of(TokenRevoked)) == 1
