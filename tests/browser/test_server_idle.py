"""The server's own idle timeout, which the element follows, and why a session is over."""

import time
from collections.abc import Callable

from playwright.sync_api import Page

from tests.browser.element import (
    PATIENCE,
    events,
    eventually,
    expect_status,
    member,
    opened,
    revalidate,
)
from tests.browser.site import Site, signed_in

SESSION, HEARTBEAT = "GET /auth/session", "POST /heartbeat"
ON_FOCUS_ONLY = 'revalidate-interval="0"'
TEN_MINUTES = 600
OVER: dict[str, object] = {"is_authenticated": False, "ended": "expired"}


def idling() -> dict[str, object]:
    return signed_in(idle_expires_at=int(time.time()) + TEN_MINUTES)


def test_the_end_without_a_request_is_asked_about_when_it_has_come(page: Page, site: Site) -> None:
    page.clock.install()
    site.session = idling()
    opened(page, site, ON_FOCUS_ONLY)
    site.session = OVER
    asked = site.asked(SESSION)
    page.clock.fast_forward(500_000)
    page.wait_for_timeout(300)
    assert (site.asked(SESSION), member(page, "status")) == (asked, "authenticated")
    page.clock.fast_forward(110_000)
    expect_status(page, "expired")
    assert events(page, "oidc-expired") == [{"type": "oidc-expired"}]
    assert member(page, "ended") == "expired"


def test_activity_reaches_the_server_before_its_deadline(page: Page, site: Site) -> None:
    page.clock.install()
    site.session, site.idle_timeout = idling(), TEN_MINUTES
    opened(page, site, ON_FOCUS_ONLY)
    page.clock.fast_forward(200_000)
    page.keyboard.press("a")
    page.clock.fast_forward(250_000)
    eventually(page, lambda: site.asked("active") == 1)
    page.clock.fast_forward(300_000)
    page.wait_for_timeout(300)
    assert member(page, "status") == "authenticated"


def test_activity_during_a_question_reaches_the_server_in_time(page: Page, site: Site) -> None:
    page.clock.install()
    site.session, site.idle_timeout = idling(), TEN_MINUTES
    opened(page, site, ON_FOCUS_ONLY)
    gate = site.hold(SESSION)
    page.locator("oidc-context").evaluate("element => { window.answered = element.revalidate() }")
    assert gate.held.wait(PATIENCE)
    page.keyboard.press("a")
    gate.released.set()
    page.evaluate("answered")
    page.clock.fast_forward(310_000)
    eventually(page, lambda: site.asked("active") == 1)


def test_the_server_hears_of_activity_until_it_could_be_told_and_then_no_more(
    page: Page, site: Site, tolerate: Callable[[str], None]
) -> None:
    tolerate("status of 503")
    opened(page, site, ON_FOCUS_ONLY)
    revalidate(page)
    assert site.asked("active") == 0, "nobody did anything"
    page.keyboard.press("a")
    site.session_status = 503
    revalidate(page)
    assert site.asked("active") == 1
    site.session_status = 200
    revalidate(page)
    revalidate(page)
    assert site.asked("active") == 2


def test_a_heartbeat_does_not_keep_a_session_alive_that_nobody_uses(page: Page, site: Site) -> None:
    site.session = idling()
    opened(page, site, f'{ON_FOCUS_ONLY} heartbeat-url="/heartbeat"')
    revalidate(page)
    assert site.asked(HEARTBEAT) == 0
    page.keyboard.press("a")
    revalidate(page)
    eventually(page, lambda: site.asked(HEARTBEAT) == 1)
