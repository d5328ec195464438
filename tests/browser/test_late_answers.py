"""Answers that come when something else has happened: elsewhere, to the clock, or in the page."""

import pytest
from playwright.sync_api import Page

from tests.browser.element import (
    PATIENCE,
    SESSION_ASKED,
    events,
    eventually,
    expect_status,
    member,
    opened,
    revalidate,
)
from tests.browser.site import EIGHT_HOURS, NOBODY, Gate, Site, signed_in

ON_FOCUS_ONLY = "revalidate-interval=0"
NEWS = """() => {
  window.news = 0
  const channel = new BroadcastChannel(`oidc-context:login:${location.origin}/auth/session`)
  channel.onmessage = () => { news += 1 }
}"""
TIMERS_SLEEP_TOO = "AbortSignal.timeout = () => new AbortController().signal"
"""The time limit of a request goes on where it was when the machine fell asleep."""
RETURN = "dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))"


def asking(page: Page, site: Site) -> Gate:
    """The page has asked for the session; the answer is ready, and held."""
    gate = site.hold(SESSION_ASKED)
    page.locator("oidc-context").evaluate("element => { window.answered = element.revalidate() }")
    assert gate.held.wait(PATIENCE)
    return gate


@pytest.mark.parametrize("comes", [False, True], ids=["logout", "login"])
def test_what_another_tab_tells_meanwhile_is_asked_about(
    page: Page, site: Site, *, comes: bool
) -> None:
    before, after = (NOBODY, signed_in()) if comes else (signed_in(), NOBODY)
    site.session = before
    opened(page, site, ON_FOCUS_ONLY, status="anonymous" if comes else "authenticated")
    page.evaluate(NEWS)
    gate = asking(page, site)
    site.session = after
    other = page.context.new_page()
    opened(other, site, ON_FOCUS_ONLY, status="authenticated" if comes else "anonymous")
    eventually(page, lambda: bool(page.evaluate("news")))
    gate.released.set()
    expect_status(page, "authenticated" if comes else "revoked")


def test_a_page_that_comes_back_asks_although_it_has_just_asked(page: Page, site: Site) -> None:
    page.clock.install()
    opened(page, site, ON_FOCUS_ONLY)
    revalidate(page)
    gate = asking(page, site)
    site.end_session()
    page.evaluate(RETURN)
    gate.released.set()
    expect_status(page, "revoked")


def test_the_session_ends_on_time_while_the_server_is_silent(page: Page, site: Site) -> None:
    page.clock.install()
    opened(page, site, "revalidate-interval=60")
    page.evaluate(TIMERS_SLEEP_TOO)
    gate = site.hold(SESSION_ASKED)
    page.clock.run_for(70_000)
    assert gate.held.wait(PATIENCE)
    page.clock.fast_forward(EIGHT_HOURS * 1000)
    expect_status(page, "expired")
    gate.released.set()


@pytest.mark.parametrize(
    ("ended", "later", "status"), [(True, 6, "revoked"), (False, 6 * 3600 + 60, "expired")]
)
def test_an_answer_from_before_the_machine_slept_is_none_and_tells_no_time(
    page: Page, site: Site, *, ended: bool, later: int, status: str
) -> None:
    page.clock.install()
    opened(page, site, ON_FOCUS_ONLY)
    page.evaluate(TIMERS_SLEEP_TOO)
    gate = asking(page, site)
    if ended:
        site.end_session()
    page.clock.fast_forward(2 * 3600 * 1000)
    gate.released.set()
    page.evaluate("answered")
    page.clock.fast_forward(later * 1000)
    expect_status(page, status)


def test_a_clock_that_was_set_back_delays_no_question(page: Page, site: Site) -> None:
    page.clock.install()
    opened(page, site)
    site.end_session()
    page.clock.set_system_time(page.evaluate("Date.now() / 1000 - 3600"))
    page.clock.run_for(6000)
    expect_status(page, "revoked")


HOLD_THE_IDLE_LOCK = """
const { request } = LockManager.prototype
LockManager.prototype.request = async function (name, ...rest) {
  if (name.includes('idle-lock')) await new Promise((go) => { window.go = go })
  return request.call(this, name, ...rest)
}
"""


@pytest.fixture
def ending(page: Page, site: Site) -> Page:
    """A page whose idle session is about to end, when it may have the lock: see `go`."""
    page.clock.install()
    page.add_init_script(HOLD_THE_IDLE_LOCK)
    opened(page, site, f"{ON_FOCUS_ONLY} idle-timeout=600")
    page.clock.fast_forward(601_000)
    eventually(page, lambda: bool(page.evaluate("typeof go === 'function'")))
    return page


def test_who_signs_in_in_the_moment_of_the_idle_end_is_shown(ending: Page, site: Site) -> None:
    site.session = signed_in(sub="bob", expires_at=2**31)
    revalidate(ending)
    ending.evaluate("go()")
    revalidate(ending)
    assert member(ending, "session") == site.session
    assert [event["status"] for event in events(ending, "oidc-change")] == ["authenticated"] * 2


def test_an_element_that_is_removed_in_the_moment_of_the_idle_end_signs_nobody_out(
    ending: Page, site: Site
) -> None:
    ending.evaluate("document.querySelector('oidc-context').remove()")
    ending.evaluate("go()")
    ending.evaluate("navigator.locks.request('after', () => {})")
    assert events(ending, "oidc-idle") == []
    assert site.asked("POST /auth/logout") == 0
