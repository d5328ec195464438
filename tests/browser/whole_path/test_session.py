"""Login, expiry, idleness, revocation and logout, from the page to the provider and back."""

from playwright.sync_api import Page

from fastapi_oidc.testing import SignedOut
from tests.browser.element import events, expect_status, member, revalidate
from tests.browser.whole_path.world import World

EIGHT_HOURS = 8 * 3600


def session_cookies(page: Page) -> list[str]:
    return [name for cookie in page.context.cookies() if "session" in (name := cookie["name"])]


def test_the_session_expires_in_the_page_and_at_the_server(page: Page, site: World) -> None:
    page.clock.install()
    site.sign_in(page)
    page.wait_for_load_state()
    revalidate(page)  # an answer that comes after the leap would be taken for a server's clock
    page.clock.fast_forward(EIGHT_HOURS * 1000)
    expect_status(page, "expired")
    site.time.ahead = EIGHT_HOURS
    assert revalidate(page) == "expired"
    site.open(page, status="anonymous")
    assert session_cookies(page) == []


def test_a_back_channel_logout_is_noticed_on_focus(page: Page, site: World) -> None:
    page.clock.install()
    site.sign_in(page)
    site.end_everywhere("alice")
    page.clock.fast_forward(2000)
    page.evaluate("dispatchEvent(new Event('focus'))")
    expect_status(page, "revoked")
    (event,) = events(page, "oidc-revoked")
    assert (event["reason"], event["ended"]) == ("session_ended", "ended_by_provider")
    assert member(page, "ended") == "ended_by_provider"


def test_logout_ends_both_sessions_and_a_local_one_leaves_that_of_the_provider(
    page: Page, site: World
) -> None:
    site.sign_in(page)
    page.locator("oidc-context").evaluate("element => element.logoutLocal()")
    expect_status(page, "anonymous")
    assert site.provider.record.of(SignedOut) == []
    page.locator("oidc-context").evaluate("element => element.login()")
    expect_status(page, "authenticated")
    page.locator("oidc-context").evaluate("element => element.logout()")
    expect_status(page, "anonymous")
    assert site.provider.record.of(SignedOut) == [SignedOut("alice", "app")]
    page.locator("oidc-context").evaluate("element => element.login()")
    page.get_by_role("button", name="Bob").wait_for()
