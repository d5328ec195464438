"""Signing out: at the app, at the provider, and at every other app of the same session."""

from tests.oidc.real_op.browser import Browser
from tests.oidc.real_op.real_provider import RealProvider
from tests.oidc.real_op.relying_party import RelyingParty, relying_party


def test_logout_ends_the_session_here_and_at_the_provider(
    rp: RelyingParty, browser: Browser
) -> None:
    browser.login(rp)
    page = browser.logout(rp)
    assert (page.status_code, str(page.url)) == (200, f"{rp.origin}/")
    assert browser.me(rp).status_code == 401
    assert "logout.returned" in rp.event_names
    silent = browser.finish(browser.login_request(rp, prompt="none"))
    assert silent.status_code == 400
    assert browser.me(rp).status_code == 401


def test_the_other_apps_of_the_session_are_told_by_the_back_channel(
    provider: RealProvider, rp: RelyingParty, browser: Browser
) -> None:
    with relying_party(provider) as other:
        browser.login(rp)
        browser.login(other)
        assert browser.me(other).status_code == 200
        browser.logout(rp)
        assert "back_channel_logout.accepted" in other.event_names
        assert browser.me(other).status_code == 401


def test_logout_when_the_provider_has_no_session_any_more(
    rp: RelyingParty, browser: Browser
) -> None:
    browser.login(rp)
    browser.http.cookies.delete("_session")
    page = browser.logout(rp)
    assert (page.status_code, str(page.url)) == (200, f"{rp.origin}/")
