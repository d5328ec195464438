"""When the element asks the server, and what it does when the server cannot say."""

from collections.abc import Callable

from playwright.sync_api import Page

from tests.browser.element import HIDE, expect_status, member, opened, revalidate
from tests.browser.site import Site

SESSION = "GET /auth/session"


def test_the_focus_of_a_field_is_no_reason_to_ask(page: Page, site: Site) -> None:
    site.body = "<oidc-context revalidate-interval=0></oidc-context><input>"
    page.clock.install()
    opened(page, site)
    page.clock.fast_forward(2000)
    page.locator("input").focus()
    page.wait_for_timeout(300)
    assert site.asked(SESSION) == 1


def test_a_hidden_page_does_not_ask_until_it_is_shown(page: Page, site: Site) -> None:
    page.clock.install()
    opened(page, site, "revalidate-interval=10")
    page.evaluate(HIDE, True)
    page.wait_for_timeout(300)
    asked = site.asked(SESSION)
    page.clock.run_for(60_000)
    page.wait_for_timeout(300)
    assert site.asked(SESSION) == asked
    site.end_session()
    page.evaluate(HIDE, False)
    expect_status(page, "revoked")


def test_calls_made_at_once_share_one_request(page: Page, site: Site) -> None:
    opened(page, site, "revalidate-interval=0")
    page.locator("oidc-context").evaluate(
        "element => Promise.all([element.revalidate(), element.revalidate(), element.revalidate()])"
    )
    assert site.asked(SESSION) == 2


def test_whatever_is_no_answer_changes_nothing_and_401_is_one(
    page: Page, site: Site, tolerate: Callable[[str], None]
) -> None:
    tolerate("status of (500|503|429|40[134])")
    opened(page, site)
    for status in (500, 503, 429, 403, 404):
        site.session_status = status
        assert revalidate(page) == "authenticated"
        assert member(page, "identity") == {"name": "Alice"}
    session, site.session, site.session_status = site.session, {"is_authenticated": "yes"}, 200
    assert revalidate(page) == "authenticated"
    site.session, site.session_status = session, 401
    assert revalidate(page) == "revoked"


def test_a_page_that_was_opened_while_the_server_was_down_recovers(
    page: Page, site: Site, tolerate: Callable[[str], None]
) -> None:
    page.clock.install()
    site.session_status = 503
    opened(page, site, "revalidate-interval=0", status="loading")
    revalidate(page)
    site.session_status = 200
    page.clock.run_for(12_000)
    expect_status(page, "authenticated")
    tolerate("status of 503")
