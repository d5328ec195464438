"""A recent and a strong authentication, at an OpenID Provider that nobody here wrote (RFC 9470)."""

from tests.oidc.real_op.browser import Browser
from tests.oidc.real_op.relying_party import RelyingParty


def test_max_age_continues_the_session(rp: RelyingParty, browser: Browser) -> None:
    assert browser.login(rp).status_code == 200
    assert browser.login(rp, max_age="0").status_code == 200
    assert browser.me(rp).json()["generation"] == 1
    assert len({event.session_id for event in rp.events if event.session_id}) == 1


def test_a_provider_to_which_acr_values_are_voluntary_does_not_step_up(
    rp: RelyingParty, browser: Browser
) -> None:
    browser.login(rp, acr_values="otp")
    refused = browser.login(rp, acr_values="hwk")
    assert refused.status_code == 403
    assert "id_token.authentication_context" in refused.text
    assert browser.me(rp).json()["generation"] == 0
