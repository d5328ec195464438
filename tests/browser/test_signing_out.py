"""A session that the element has to end: it goes, wholly, and no other one with it."""

from collections.abc import Callable, Iterator

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
from tests.browser.site import NOBODY, Gate, Site, signed_in
from tests.browser.watched_provider import answering, monitored, say, watched

LOGOUT, HEARTBEAT = "POST /auth/logout", "POST /heartbeat"
SILENT_LOGIN = "GET /auth/login"
BEATING = "heartbeat-url=/heartbeat revalidate-interval=0"
REVALIDATE = "element => void element.revalidate()"


@pytest.fixture(autouse=True)
def refusals(tolerate: Callable[[str], None]) -> None:
    """Chromium notes those of heartbeat and sign-out, which are wanted here."""
    tolerate("status of (403|503)")


@pytest.fixture
def refused(page: Page, site: Site) -> Page:
    """A page whose next heartbeat will be refused."""
    opened(page, site, BEATING)
    revalidate(page)
    site.heartbeat_status = 403
    return page


def held(page: Page, site: Site, request: str) -> Gate:
    """The page asks the server, until this answer."""
    gate = site.hold(request)
    page.locator("oidc-context").evaluate(REVALIDATE)
    assert gate.held.wait(PATIENCE)
    return gate


def test_other_tabs_hear_of_it_once_the_server_has_done_it(refused: Page, site: Site) -> None:
    site.heartbeat_status = 204
    other = opened(refused.context.new_page(), site, "revalidate-interval=0")
    site.heartbeat_status = 403
    gate = held(refused, site, LOGOUT)
    assert revalidate(other) == "authenticated"
    gate.released.set()
    expect_status(other, "revoked")


def test_it_ends_although_the_page_takes_the_element_away(refused: Page, site: Site) -> None:
    refused.evaluate(
        """addEventListener('oidc-change', ({ detail, target }) => {
          if (detail.status === 'revoked') target.remove()
        })"""
    )
    revalidate(refused)
    eventually(refused, lambda: site.session == NOBODY)


def test_a_late_refusal_ends_no_login_that_was_made_meanwhile(refused: Page, site: Site) -> None:
    gate = held(refused, site, HEARTBEAT)
    site.session = signed_in(sub="bob", csrf_token="token-2")
    gate.released.set()
    eventually(refused, lambda: events(refused, "oidc-revoked") != [])
    site.heartbeat_status = 204
    assert revalidate(refused) == "authenticated"
    assert member(refused, "session") == site.session


def test_a_sign_out_that_failed_is_tried_again_without_an_interval(page: Page, site: Site) -> None:
    page.clock.install()
    opened(page, site, BEATING)
    revalidate(page)
    site.heartbeat_status, site.logout_status = 403, 503
    assert revalidate(page) == "revoked"
    site.logout_status = 303
    page.clock.run_for(6000)
    eventually(page, lambda: site.session == NOBODY)


def test_a_login_that_is_refused_each_time_is_not_repeated_for_ever(page: Page, site: Site) -> None:
    site.session_after_login = site.session
    site.heartbeat_status = 403
    site.attributes = f"{BEATING} redirect-on-revoked=login"
    page.goto(site.origin)
    eventually(page, lambda: site.asked(LOGOUT) == 2)
    expect_status(page, "revoked")
    page.wait_for_timeout(300)
    assert site.asked(SILENT_LOGIN) == 1
    assert page.url == f"{site.origin}/signed-in-again"


@pytest.fixture
def provider(site: Site) -> Iterator[None]:
    with watched(site):
        yield


@pytest.fixture
def doubted(page: Page, site: Site, provider: None) -> Gate:
    """The silent login of this page is about to be told of another user."""
    site.silent = "authorization.other_user"
    gate = site.hold(SILENT_LOGIN)
    say(monitored(page, site, "revalidate-interval=0"), "changed")
    assert gate.held.wait(PATIENCE)
    return gate


def test_a_late_check_ends_no_login_made_meanwhile(page: Page, site: Site, doubted: Gate) -> None:
    site.session = signed_in(sub="bob", session_state="state.2", csrf_token="token-2")
    assert revalidate(page) == "authenticated"
    doubted.released.set()
    eventually(page, lambda: member(page, "monitoring") == "watching")
    assert site.forms == []
    assert events(page, "oidc-revoked") == []


def test_a_late_answer_brings_back_no_session_that_the_element_ended(
    page: Page, site: Site, doubted: Gate
) -> None:
    page.evaluate("void (window.told = new Promise(told => addEventListener('message', told)))")
    answer = held(page, site, SESSION_ASKED)
    doubted.released.set()
    eventually(page, lambda: len(page.frames) == 2)
    page.wait_for_timeout(300)
    answer.released.set()
    eventually(page, lambda: events(page, "oidc-revoked") != [])
    revalidate(page)
    shown = [event["status"] for event in events(page, "oidc-change")]
    assert shown == ["authenticated", "revoked"]


def test_a_check_whose_sign_out_failed_is_repeated_by_the_next_page(
    page: Page, site: Site, provider: None
) -> None:
    page.clock.install()
    site.silent, site.logout_status = "authorization.refused", 503
    say(monitored(page, site, "revalidate-interval=0"), "changed")
    page.clock.run_for(1000)
    expect_status(page, "revoked")
    eventually(page, lambda: site.asked(LOGOUT) == 1)
    eventually(page, lambda: '"checks":1' in page.evaluate("Object.values(localStorage).join()"))
    answering(site, "changed")
    site.logout_status = 303
    monitored(page, site, "revalidate-interval=0")
    page.clock.run_for(31_000)
    eventually(page, lambda: site.session == NOBODY)
