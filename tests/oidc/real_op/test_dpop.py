"""Tokens bound to a key (RFC 9449), with a provider that checks every proof."""

import pytest

from tests.oidc.real_op.browser import Browser
from tests.oidc.real_op.real_provider import RealProvider, running_provider
from tests.oidc.real_op.relying_party import relying_party
from tests.oidc.real_op.test_login import ALMOST_EXPIRED

DPOP: dict[str, object] = {"dpop": True}
BOUND: dict[str, object] = {"dpop_bound_access_tokens": True}
PUBLIC: dict[str, object] = {"client_secret": None, "token_endpoint_auth_method": "none"}


@pytest.mark.parametrize("is_public", [False, True])
def test_login_and_refreshes(provider: RealProvider, browser: Browser, *, is_public: bool) -> None:
    """UserInfo is asked each time; the refresh tokens of a public client are bound too."""
    registration = BOUND | PUBLIC if is_public else BOUND
    settings = DPOP | {"client_secret": None} if is_public else DPOP
    with relying_party(provider, registration=registration, settings=settings) as rp:
        assert browser.login(rp).json()["identity"]["name"] == "Alice"
        for generation in (1, 2):
            rp.time.ahead += ALMOST_EXPIRED
            assert browser.me(rp).json()["generation"] == generation
        assert rp.event_names.count("session.refreshed") == 2
        assert "session.identity_not_updated" not in rp.event_names


def test_a_client_that_must_bind_its_tokens(provider: RealProvider, browser: Browser) -> None:
    with relying_party(provider, registration=BOUND) as rp:
        assert "token.invalid_grant" in browser.login(rp).text
        assert browser.me(rp).status_code == 401


@pytest.mark.parametrize("is_public", [False, True])
def test_nonces(browser: Browser, *, is_public: bool) -> None:
    """At the token endpoint and at UserInfo; the provider names one when it refuses a proof."""
    registration = BOUND | PUBLIC if is_public else BOUND
    settings = DPOP | {"client_secret": None} if is_public else DPOP
    with (
        running_provider("oidc-provider") as provider,
        relying_party(provider, registration=registration, settings=settings) as rp,
    ):
        provider.demand_nonces()
        assert browser.login(rp).json()["identity"]["name"] == "Alice"
        rp.time.ahead += ALMOST_EXPIRED
        assert browser.me(rp).json()["generation"] == 1
        assert "session.identity_not_updated" not in rp.event_names
