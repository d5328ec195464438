"""Refresh with rotation: every refresh token works once, and its reuse ends the session."""

from tests.oidc.real_op.browser import Browser
from tests.oidc.real_op.real_provider import RealProvider
from tests.oidc.real_op.relying_party import RelyingParty, relying_party

# The provider's access tokens live 120 seconds; a session is refreshed 30 seconds before.
ALMOST_EXPIRED = 100
A_LONG_TIME = 700


def test_an_expiring_session_is_refreshed_again_and_again(
    rp: RelyingParty, browser: Browser
) -> None:
    browser.login(rp)
    for generation in (1, 2, 3):
        rp.time.ahead += ALMOST_EXPIRED
        me = browser.me(rp).json()
        assert (me["sub"], me["generation"]) == ("alice", generation)
        assert (me["identity"]["name"], me["identity"]["email"]) == ("Alice", "alice@example.com")
    assert rp.event_names.count("session.refreshed") == 3


def test_an_old_cookie_that_comes_later_presents_no_used_refresh_token(
    rp: RelyingParty, browser: Browser
) -> None:
    """The provider would revoke the session's tokens; the old cookie gets the newest session."""
    browser.login(rp)
    old = dict(browser.http.cookies)
    rp.time.ahead += ALMOST_EXPIRED
    browser.me(rp)
    newest = dict(browser.http.cookies)
    rp.time.ahead += A_LONG_TIME
    for cookies in (old, newest):
        browser.http.cookies.clear()
        browser.http.cookies.update(cookies)
        assert browser.me(rp).status_code == 200
        rp.time.ahead += ALMOST_EXPIRED


def test_a_refresh_token_revoked_by_signing_out_elsewhere_ends_the_session(
    provider: RealProvider, rp: RelyingParty, browser: Browser
) -> None:
    with relying_party(provider, registration={"backchannel_logout_uri": None}) as untold:
        browser.login(untold)
        browser.login(rp)
        browser.logout(rp)
        assert browser.me(untold).status_code == 200
        untold.time.ahead += ALMOST_EXPIRED
        assert browser.me(untold).status_code == 401
        assert "session.ended" in untold.event_names
