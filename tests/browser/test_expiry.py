"""The end of the session, which was fixed at login."""

import time

import pytest
from playwright.sync_api import Page, expect

from tests.browser.element import HIDE, events, expect_status, member, opened, standing_still
from tests.browser.site import EIGHT_HOURS, NOBODY, Site, signed_in

SESSION = "GET /auth/session"
ON_FOCUS_ONLY = "revalidate-interval=0"


def pass_the_end(page: Page) -> None:
    """Lets the session's eight hours go by in the page."""
    page.clock.fast_forward((EIGHT_HOURS + 60) * 1000)


def test_the_session_ends_on_time_without_a_request(page: Page, site: Site) -> None:
    standing_still(page)
    opened(page, site, ON_FOCUS_ONLY)
    page.clock.run_for((EIGHT_HOURS - 60) * 1000)
    assert member(page, "status") == "authenticated"
    page.clock.run_for(120_000)
    assert member(page, "status") == "expired"
    assert member(page, "isAuthenticated") is False
    assert member(page, "session") is None
    assert events(page, "oidc-expired") == [{"type": "oidc-expired"}]
    page.clock.run_for(60_000)
    assert site.asked(SESSION) == 1


def test_a_tab_that_wakes_up_checks_the_end_first(page: Page, site: Site) -> None:
    page.clock.install()
    opened(page, site)
    site.end_session()
    page.clock.pause_at(time.time() + EIGHT_HOURS + 60)
    page.evaluate("dispatchEvent(new Event('visibilitychange'))")
    assert member(page, "status") == "expired"
    assert events(page, "oidc-revoked") == []


def test_a_wrong_clock_does_not_end_the_session(page: Page, site: Site) -> None:
    page.clock.install(time=time.time() + 2 * EIGHT_HOURS)
    opened(page, site)
    page.wait_for_timeout(500)
    assert member(page, "status") == "authenticated"


@pytest.mark.parametrize(
    ("value", "path"), [("/bye", "/bye"), ("reload", "/"), ("logout", "/signed-out")]
)
def test_the_page_goes_where_the_attribute_says(
    page: Page, site: Site, value: str, path: str
) -> None:
    page.clock.install()
    opened(page, site, f'redirect-on-expired="{value}"')
    site.end_session()
    pass_the_end(page)
    expect(page).to_have_url(site.origin + path)
    expect_status(page, "anonymous")


@pytest.mark.parametrize("back", [False, True], ids=["nobody", "signed_in_again"])
def test_a_page_that_nobody_sees_goes_there_when_it_is_shown(
    page: Page, site: Site, *, back: bool
) -> None:
    page.clock.install()
    opened(page, site, 'redirect-on-expired="login"')
    page.evaluate(HIDE, True)
    pass_the_end(page)
    expect_status(page, "expired")
    page.clock.run_for(20_000)
    assert site.asked("GET /auth/login") == 0
    site.session = signed_in(expires_at=2**31) if back else NOBODY
    page.evaluate(HIDE, False)
    if back:
        expect_status(page, "authenticated")
        page.clock.run_for(20_000)
    else:
        expect(page).to_have_url(site.origin + "/signed-in-again")
    assert site.asked("GET /auth/login") == (0 if back else 1)


def test_a_session_that_was_over_at_the_load_leads_nowhere(page: Page, site: Site) -> None:
    site.session = signed_in(expires_at=int(time.time()) - 10)
    opened(page, site, 'redirect-on-expired="reload"', status="expired")
    page.wait_for_timeout(300)
    assert site.asked("GET /") == 1
    assert events(page, "oidc-expired") == []
