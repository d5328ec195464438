"""Logout from script: a form POST, here or at the provider too."""

from __future__ import annotations

from typing import Final

from playwright.sync_api import Page, expect

from tests.browser.element import expect_status, opened
from tests.browser.site import Site, signed_in

LOGOUTS: Final[tuple[tuple[str, dict[str, list[str]], str], ...]] = (
    ("logout()", {}, "/signed-out"),
    ("logout({ returnTo: '/bye' })", {"return_to": ["/bye"]}, "/bye"),
    ("logoutLocal()", {"local": ["1"]}, "/signed-out"),
    ("logoutLocal({ returnTo: '/bye' })", {"local": ["1"], "return_to": ["/bye"]}, "/bye"),
)
LOGINS: Final = (
    ("login()", "?return_to=%2F"),
    ("login({ returnTo: '/machines?on' })", "?return_to=%2Fmachines%3Fon"),
)


def test_logout_posts_a_form(page: Page, site: Site) -> None:
    for call, form, path in LOGOUTS:
        site.session = signed_in()
        opened(page, site)
        page.locator("oidc-context").evaluate(f"element => element.{call}")
        expect(page).to_have_url(site.origin + path)
        expect_status(page, "anonymous")
        assert site.forms.pop() == form
        assert site.forms == []


def test_login_says_where_to_come_back_to(page: Page, site: Site) -> None:
    for call, query in LOGINS:
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
