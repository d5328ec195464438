"""The idle deadline of several tabs: one of them ends the session, none overtakes another."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from playwright.sync_api import Page

from tests.browser.element import PATIENCE, eventually, expect_status, member, opened
from tests.browser.site import Site

TEN_MINUTES = "idle-timeout=600"
LOGOUT = "POST /auth/logout"
STAND_STILL_ONCE_READ = """
void (globalThis.answered = new Promise((resolve) => {
  const { getItem } = Storage.prototype
  Storage.prototype.getItem = function (key) {
    const value = getItem.call(this, key)
    Storage.prototype.getItem = getItem
    const request = new XMLHttpRequest()
    request.open('GET', '/hold', false)
    request.send()
    resolve()
    return value
  }
}))
"""
"""The page stands still after it has read what the tabs share, until the site lets it go on."""


def test_activity_in_one_tab_keeps_the_other(page: Page, site: Site) -> None:
    page.context.clock.install()
    opened(page, site, TEN_MINUTES)
    other = opened(page.context.new_page(), site, TEN_MINUTES)
    for _ in range(3):
        page.context.clock.fast_forward(500_000)
        known = kept(page)
        other.keyboard.press("a")
        eventually(page, partial(differs, page, known))
    page.wait_for_timeout(300)
    assert member(page, "status") == "authenticated"
    assert site.asked(LOGOUT) == 0


def kept(page: Page) -> object:
    """What the tabs have told each other, as far as this one knows."""
    return page.evaluate("JSON.stringify(localStorage)")


def differs(page: Page, known: object) -> bool:
    return kept(page) != known


def test_an_answer_of_the_server_leaves_what_another_tab_has_just_stored(
    page: Page, site: Site
) -> None:
    opened(page, site, TEN_MINUTES)
    other = opened(page.context.new_page(), site, TEN_MINUTES)
    gate = site.hold("GET /hold")
    page.evaluate(STAND_STILL_ONCE_READ)
    page.evaluate("void document.querySelector('oidc-context').revalidate()")
    assert gate.held.wait(PATIENCE)
    known = kept(other)
    other.keyboard.press("a")
    eventually(other, partial(differs, other, known))
    moved = kept(other)
    gate.released.set()
    page.evaluate("answered")
    eventually(page, lambda: kept(page) == moved)
    assert kept(other) == moved


def test_two_idle_tabs_log_out_once(page: Page, site: Site) -> None:
    page.context.clock.install()
    opened(page, site, TEN_MINUTES)
    other = opened(page.context.new_page(), site, TEN_MINUTES)
    page.context.clock.fast_forward(601_000)
    ends = {site.origin + "/", site.origin + "/signed-out"}
    eventually(page, lambda: {page.url, other.url} == ends)
    follower = page if page.url.endswith("/") else other
    expect_status(follower, "idle")
    follower.clock.run_for(5000)
    expect_status(follower, "idle")
    assert site.asked(LOGOUT) == 1


def test_the_tab_that_follows_goes_where_an_expired_one_would(page: Page, site: Site) -> None:
    page.context.clock.install()
    attributes = f'{TEN_MINUTES} redirect-on-expired="/bye"'
    opened(page, site, attributes)
    other = opened(page.context.new_page(), site, attributes)
    page.context.clock.fast_forward(601_000)
    page.wait_for_timeout(300)
    page.context.clock.run_for(5000)
    ends = {site.origin + "/bye", site.origin + "/signed-out"}
    eventually(page, lambda: {page.url, other.url} == ends)


def test_a_tab_that_followed_in_vain_stays_where_it_is(page: Page, site: Site) -> None:
    page.context.clock.install()
    attributes = f'{TEN_MINUTES} redirect-on-expired="/bye"'
    page.add_init_script("addEventListener('oidc-idle', event => event.preventDefault())")
    opened(page, site, attributes)
    other = opened(page.context.new_page(), site, attributes)
    other.evaluate("addEventListener('oidc-idle', event => event.preventDefault())")
    page.context.clock.fast_forward(601_000)
    page.wait_for_timeout(300)
    page.context.clock.run_for(5000)
    page.wait_for_timeout(300)
    for tab in (page, other):
        assert tab.url == site.origin + "/"
        expect_status(tab, "authenticated")
    assert site.asked(LOGOUT) == 0


def test_a_logout_that_did_not_reach_the_server_is_taken_over(
    page: Page, site: Site, tolerate: Callable[[str], None]
) -> None:
    page.context.clock.install()
    site.logout_status = 503
    opened(page, site, TEN_MINUTES)
    other = opened(page.context.new_page(), site, TEN_MINUTES)
    page.context.clock.fast_forward(601_000)
    failed = site.origin + "/auth/logout"
    eventually(page, lambda: failed in (page.url, other.url))
    site.logout_status = 303
    follower = page if other.url == failed else other

    def waited() -> bool:
        follower.clock.run_for(1000)
        page.wait_for_timeout(100)
        return follower.url == site.origin + "/signed-out"

    eventually(page, waited)
    assert site.asked(LOGOUT) == 2
    assert {page.url, other.url} == {failed, follower.url}
    tolerate("status of 503")
