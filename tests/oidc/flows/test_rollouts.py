"""A new `cookie_secret`, or a new release, is rolled out while people are signed in.

What a release seals in a form of its own is, to an older one, sealed with a secret that it lacks.
"""

import secrets

import httpx
import pytest

from fastapi_oidc import OIDCSettings
from fastapi_oidc.testing import sign_in
from tests.oidc.flows.steps import (
    AFTER_EXPIRY,
    callback_url,
    generation,
    returned,
    shared_stores,
    user,
)
from tests.oidc.interleaving import another_process, same_browser
from tests.oidc.world import LOGIN_URL, Time, World, make_world

OLD, NEW = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
SESSION = OIDCSettings.model_fields["session_lifetime"].default


@pytest.fixture
def processes(mode: str) -> list[World]:
    """Each has the next secrets of a rollout."""
    time = Time()
    stores = shared_stores(mode, time)
    old = make_world(time=time, settings={"cookie_secret": OLD}, **stores)
    usual = dict(old.oidc.settings)
    later = [
        OIDCSettings.model_validate(usual | {"cookie_secret": each})
        for each in ([OLD, NEW], [NEW, OLD], [NEW])
    ]
    return [old, *(another_process(old, settings=each, **stores) for each in later)]


async def rolled_out(browser: httpx.AsyncClient, before: World, after: World) -> None:
    """Each process continues what the other one has sealed: sessions and logins under way."""
    known = await generation(same_browser(browser, before))
    assert known is not None
    for one, other in ((after, before), (before, after)):
        known += 1
        before.time.advance(AFTER_EXPIRY)
        assert [await generation(same_browser(browser, each)) for each in (one, other)] == [
            known
        ] * 2
        bob = one.browser()
        url = await callback_url(bob, user="bob")
        assert await returned(same_browser(bob, other), url) == "/me"


async def test_nobody_is_signed_out_while_a_new_cookie_secret_is_rolled_out(
    processes: list[World],
) -> None:
    old, both, changed, new = processes
    browser = await old.signed_in()
    await rolled_out(browser, old, both)
    await rolled_out(browser, both, changed)
    old.time.advance(SESSION)
    browser = await changed.signed_in()
    await rolled_out(browser, changed, new)


async def test_a_session_of_the_next_release_waits_for_a_process_that_can_read_it(
    processes: list[World], mode: str
) -> None:
    old, _, new, _ = processes
    # A cookie that cannot be read is none; a row that cannot be read is not known to be absent.
    refused, page_status = (401, 302) if mode == "cookie" else (503, 503)
    browser = await old.signed_in()
    assert await generation(same_browser(browser, new)) == 0
    old.time.advance(AFTER_EXPIRY)
    assert await generation(same_browser(browser, new)) == 1
    for headers, status in (({}, refused), ({"Sec-Fetch-Mode": "navigate"}, page_status)):
        answer = await browser.get("/me", headers=headers, follow_redirects=False)
        assert (answer.status_code, "set-cookie" in answer.headers) == (status, False)
    assert await generation(same_browser(browser, new)) == 1


async def test_who_signs_in_at_a_process_of_either_release_is_signed_in_at_both(
    processes: list[World],
) -> None:
    """Whoever meets the old one with a session of the next release, and is sent to the login."""
    old, _, new, _ = processes
    browser = same_browser(await new.signed_in(), old)
    assert (await sign_in(browser, f"{LOGIN_URL}&prompt=login", user="alice")).status_code == 200
    assert [await user(same_browser(browser, each)) for each in (old, new)] == ["alice"] * 2


async def test_a_login_of_the_next_release_is_completed_by_who_can_read_it(
    processes: list[World],
) -> None:
    old, _, new, _ = processes
    browser = new.browser()
    url = await callback_url(browser)
    at_old = await same_browser(browser, old).get(url)
    assert (at_old.status_code, "set-cookie" in at_old.headers) == (400, False)
    assert await returned(browser, url) == "/me"
    assert await user(browser) == "alice"
