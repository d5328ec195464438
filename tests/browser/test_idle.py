"""The idle deadline: one for all tabs, absolute, and final once it has passed."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.element import events, eventually, expect_status, member, opened
from tests.browser.site import Site, signed_in

TEN_MINUTES = "idle-timeout=600"
LOGOUT = "POST /auth/logout"
FORBIDDEN = (
    "Object.defineProperty(window, 'localStorage', { get() { throw new Error('forbidden') } })"
)
FULL = "Storage.prototype.setItem = () => { throw new Error('full') }"


def test_logout_ends_the_session_of_this_application_alone(page: Page, site: Site) -> None:
    page.clock.install()
    opened(page, site, f'{TEN_MINUTES} redirect-on-idle="logout"')
    page.clock.fast_forward(601_000)
    expect(page).to_have_url(site.origin + "/signed-out")
    assert site.forms == [{"local": ["1"]}]


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


def test_an_idle_session_is_ended_at_the_provider_and_a_new_login_has_a_whole_timeout(
    page: Page, site: Site
) -> None:
    page.clock.install()
    opened(page, site, TEN_MINUTES)
    page.clock.fast_forward(601_000)
    expect(page).to_have_url(site.origin + "/signed-out")
    assert site.forms == [{}]
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


@pytest.mark.parametrize("storage", [FORBIDDEN, FULL], ids=["forbidden", "full"])
def test_without_storage_a_tab_counts_alone(page: Page, site: Site, storage: str) -> None:
    page.clock.install()
    page.add_init_script(storage)
    opened(page, site, TEN_MINUTES)
    page.clock.fast_forward(500_000)
    page.keyboard.press("a")
    page.clock.fast_forward(500_000)
    assert site.asked(LOGOUT) == 0
    page.clock.fast_forward(101_000)
    expect(page).to_have_url(site.origin + "/signed-out")


def test_without_locks_a_tab_decides_alone(page: Page, site: Site) -> None:
    page.clock.install()
    page.add_init_script(
        "Object.defineProperty(Navigator.prototype, 'locks', { value: undefined })"
    )
    opened(page, site, TEN_MINUTES)
    page.clock.fast_forward(601_000)
    expect(page).to_have_url(site.origin + "/signed-out")
    assert site.asked(LOGOUT) == 1
