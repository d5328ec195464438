"""The idle deadline: one for all tabs, absolute, and final once it has passed."""

from collections.abc import Callable
from functools import partial

import pytest
from playwright.sync_api import Page, expect

from tests.browser.element import PATIENCE, events, eventually, expect_status, member, opened
from tests.browser.site import Site, signed_in

TEN_MINUTES = "idle-timeout=600"
LOGOUT = "POST /auth/logout"
FORBIDDEN = (
    "Object.defineProperty(window, 'localStorage', { get() { throw new Error('forbidden') } })"
)
NO_LOCKS = "Object.defineProperty(Navigator.prototype, 'locks', { value: undefined })"
FULL = "Storage.prototype.setItem = () => { throw new Error('full') }"


def test_activity_moves_the_deadline_until_it_has_passed_while_the_machine_slept(
    page: Page, site: Site
) -> None:
    page.clock.install()
    opened(page, site, TEN_MINUTES)
    for _ in range(3):
        page.clock.fast_forward(500_000)
        page.keyboard.press("a")
    assert member(page, "status") == "authenticated"
    assert site.asked(LOGOUT) == 0
    page.clock.set_system_time(page.evaluate("Date.now() / 1000 + 601"))
    page.keyboard.press("a")
    expect(page).to_have_url(site.origin + "/signed-out")


@pytest.mark.parametrize(
    ("attributes", "form"), [("", {}), (" redirect-on-idle=logout", {"local": ["1"]})]
)
def test_an_idle_session_is_ended_here_and_at_the_provider_and_a_new_login_has_a_whole_timeout(
    page: Page, site: Site, attributes: str, form: dict[str, list[str]]
) -> None:
    page.clock.install()
    opened(page, site, TEN_MINUTES + attributes)
    page.clock.fast_forward(601_000)
    expect(page).to_have_url(site.origin + "/signed-out")
    assert site.forms == [form]
    site.session = signed_in(expires_at=2**31)
    page.goto(site.origin)
    expect_status(page, "authenticated")
    page.wait_for_timeout(300)
    assert site.asked(LOGOUT) == 1


def test_a_page_can_keep_an_idle_session(page: Page, site: Site) -> None:
    page.clock.install()
    page.add_init_script(
        "addEventListener('oidc-idle', event => event.preventDefault(), { once: true })"
    )
    opened(page, site, TEN_MINUTES)
    page.clock.fast_forward(601_000)
    eventually(page, lambda: len(events(page, "oidc-idle")) == 1)
    assert member(page, "status") == "authenticated"
    page.clock.fast_forward(590_000)
    assert site.asked(LOGOUT) == 0
    page.clock.fast_forward(20_000)
    expect(page).to_have_url(site.origin + "/signed-out")


def test_without_the_attribute_nobody_is_idle_and_one_set_later_counts_from_then(
    page: Page, site: Site
) -> None:
    page.clock.install()
    opened(page, site, "revalidate-interval=0")
    page.clock.fast_forward(7 * 3600 * 1000)
    page.wait_for_timeout(300)
    assert member(page, "status") == "authenticated"
    page.locator("oidc-context").evaluate("element => { element.idleTimeout = 600 }")
    page.clock.fast_forward(590_000)
    assert site.asked(LOGOUT) == 0
    page.clock.fast_forward(11_000)
    expect(page).to_have_url(site.origin + "/signed-out")


@pytest.mark.parametrize(
    "lacks", [FORBIDDEN, FULL, NO_LOCKS], ids=["storage", "room in it", "locks"]
)
def test_without_storage_or_locks_a_tab_decides_alone(page: Page, site: Site, lacks: str) -> None:
    page.clock.install()
    page.add_init_script(lacks)
    opened(page, site, TEN_MINUTES)
    page.clock.fast_forward(500_000)
    page.keyboard.press("a")
    page.clock.fast_forward(500_000)
    assert site.asked(LOGOUT) == 0
    page.clock.fast_forward(101_000)
    expect(page).to_have_url(site.origin + "/signed-out")


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


def second_tab(page: Page, site: Site, attributes: str = TEN_MINUTES) -> Page:
    """Another tab beside the page, both with these attributes and one clock."""
    page.context.clock.install()
    opened(page, site, attributes)
    return opened(page.context.new_page(), site, attributes)


def test_activity_in_one_tab_keeps_the_other(page: Page, site: Site) -> None:
    other = second_tab(page, site)
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


def test_an_answer_of_the_server_leaves_what_another_tab_stored(page: Page, site: Site) -> None:
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
    other = second_tab(page, site)
    page.context.clock.fast_forward(601_000)
    ends = {site.origin + "/", site.origin + "/signed-out"}
    eventually(page, lambda: {page.url, other.url} == ends)
    follower = page if page.url.endswith("/") else other
    expect_status(follower, "idle")
    follower.clock.run_for(5000)
    expect_status(follower, "idle")
    assert site.asked(LOGOUT) == 1


def test_the_tab_that_follows_goes_where_an_expired_one_would(page: Page, site: Site) -> None:
    other = second_tab(page, site, f'{TEN_MINUTES} redirect-on-expired="/bye"')
    page.context.clock.fast_forward(601_000)
    page.wait_for_timeout(300)
    page.context.clock.run_for(5000)
    ends = {site.origin + "/bye", site.origin + "/signed-out"}
    eventually(page, lambda: {page.url, other.url} == ends)


def test_a_tab_that_followed_in_vain_stays_where_it_is(page: Page, site: Site) -> None:
    page.context.add_init_script("addEventListener('oidc-idle', event => event.preventDefault())")
    other = second_tab(page, site, f'{TEN_MINUTES} redirect-on-expired="/bye"')
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
    site.logout_status = 503
    other = second_tab(page, site)
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
