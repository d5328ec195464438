"""What the element says about the session."""

from typing import Final

import pytest
from playwright.sync_api import Page, expect

from tests.browser.element import events, expect_status, member, opened, revalidate
from tests.browser.site import NOBODY, Site, signed_in


def test_a_session_is_shown_with_its_identity_until_it_is_gone(page: Page, site: Site) -> None:
    opened(page, site)
    assert member(page, "isAuthenticated") is True
    assert member(page, "identity") == {"name": "Alice"}
    assert member(page, "session") == site.session
    assert member(page, "status") == "authenticated"
    assert events(page) == [
        {"type": "oidc-change", "status": "authenticated", "previous": "loading"}
    ]
    site.end_session()
    assert revalidate(page) == "revoked"
    assert member(page, "session") is None
    assert events(page, "oidc-revoked") == [{"type": "oidc-revoked", "reason": "session_ended"}]


def test_login_and_logout_in_another_tab_are_seen(page: Page, site: Site) -> None:
    site.session = NOBODY
    opened(page, site, status="anonymous")
    assert member(page, "isAuthenticated") is False
    assert member(page, "identity") is None
    assert member(page, "session") is None
    other = page.context.new_page()
    site.session = signed_in()
    opened(other, site)
    expect_status(page, "authenticated")
    site.end_session()
    opened(other, site, status="anonymous")
    expect_status(page, "revoked")


def test_a_session_without_identity_is_a_session(page: Page, site: Site) -> None:
    site.session = {"is_authenticated": True}
    opened(page, site)
    assert member(page, "identity") is None


def test_a_change_of_the_identity_is_told_once_and_a_new_csrf_token_is_none(
    page: Page, site: Site
) -> None:
    opened(page, site)
    site.session = {**site.session, "csrf_token": "token-2"}
    revalidate(page)
    assert len(events(page, "oidc-change")) == 1
    site.session = signed_in(identity={"name": "Alice Liddell"})
    revalidate(page)
    revalidate(page)
    assert len(events(page, "oidc-change")) == 2
    assert member(page, "identity") == {"name": "Alice Liddell"}


@pytest.mark.parametrize(
    ("listener", "path"), [("", "/bye"), ("event.preventDefault()", "/")], ids=["goes", "stays"]
)
def test_a_page_goes_where_the_attribute_says_unless_it_prevents_that(
    page: Page, site: Site, listener: str, path: str
) -> None:
    page.add_init_script(f"document.addEventListener('oidc-revoked', event => {{ {listener} }})")
    opened(page, site, 'redirect-on-revoked="/bye"')
    site.end_session()
    page.locator("oidc-context").evaluate("element => void element.revalidate()")
    if path == "/":
        page.wait_for_timeout(300)
    expect(page).to_have_url(site.origin + path)


LOGOUTS: Final[tuple[tuple[str, dict[str, list[str]], str], ...]] = (
    ("logout()", {}, "/signed-out"),
    ("logout({ returnTo: '/bye' })", {"return_to": ["/bye"]}, "/bye"),
    ("logoutLocal()", {"local": ["1"]}, "/signed-out"),
    ("logoutLocal({ returnTo: '/bye' })", {"local": ["1"], "return_to": ["/bye"]}, "/bye"),
)
LOGINS: Final = (
    ("login()", "?return_to=%2Fmachines%3Fstate%3Don"),
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
        page.goto(f"{site.origin}/machines?state=on")
        expect_status(page, "authenticated")
        with page.expect_request("**/auth/login?*") as request:
            page.locator("oidc-context").evaluate(f"element => element.{call}")
        assert request.value.url == f"{site.origin}/auth/login{query}"
        expect(page).to_have_url(site.origin + "/signed-in-again")


def test_no_redirect_overtakes_a_logout(page: Page, site: Site) -> None:
    opened(page, site, 'redirect-on-revoked="/bye"')
    page.locator("oidc-context").evaluate("element => { element.logout(); element.revalidate() }")
    expect(page).to_have_url(site.origin + "/signed-out")
    assert site.asked("GET /bye") == 0
