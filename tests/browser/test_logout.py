"""Logout from script: a form POST, here or at the provider too."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.element import expect_status, opened
from tests.browser.site import Site


@pytest.mark.parametrize(
    ("call", "form", "path"),
    [
        ("logout()", {}, "/signed-out"),
        ("logout({ returnTo: '/bye' })", {"return_to": ["/bye"]}, "/bye"),
        ("logoutLocal()", {"local": ["1"]}, "/signed-out"),
        ("logoutLocal({ returnTo: '/bye' })", {"local": ["1"], "return_to": ["/bye"]}, "/bye"),
    ],
)
def test_logout_posts_a_form(
    page: Page, site: Site, call: str, form: dict[str, list[str]], path: str
) -> None:
    opened(page, site)
    page.locator("oidc-context").evaluate(f"element => element.{call}")
    expect(page).to_have_url(site.origin + path)
    expect_status(page, "anonymous")
    assert site.forms == [form]


@pytest.mark.parametrize(
    ("call", "query"),
    [
        ("login()", "?return_to=%2F"),
        ("login({ returnTo: '/machines?on' })", "?return_to=%2Fmachines%3Fon"),
    ],
)
def test_login_says_where_to_come_back_to(page: Page, site: Site, call: str, query: str) -> None:
    opened(page, site)
    with page.expect_request("**/auth/login?*") as request:
        page.locator("oidc-context").evaluate(f"element => element.{call}")
    assert request.value.url == f"{site.origin}/auth/login{query}"
    expect(page).to_have_url(site.origin + "/signed-in-again")


def test_no_redirect_overtakes_a_logout(page: Page, site: Site) -> None:
    opened(page, site, 'redirect-on-revoked="/bye"')
    page.locator("oidc-context").evaluate("element => { element.logout(); element.revalidate() }")
    expect(page).to_have_url(site.origin + "/signed-out")
    assert site.asked("GET /bye") == 0


def test_an_element_goes_on_when_the_page_was_not_left(page: Page, site: Site) -> None:
    page.clock.install()
    page.route("**/auth/login*", lambda route: route.fulfill(status=204))
    opened(page, site, 'redirect-on-revoked="/bye"')
    page.locator("oidc-context").evaluate("element => element.login()")
    site.end_session()
    page.locator("oidc-context").evaluate("element => { element.revalidateInterval = 1 }")
    page.clock.run_for(9000)
    assert page.url == site.origin + "/"
    page.clock.run_for(6000)
    expect(page).to_have_url(site.origin + "/bye")
