"""Signing in at an OpenID Provider that nobody here wrote."""

import pytest

from tests.oidc.real_op.browser import Browser
from tests.oidc.real_op.real_provider import RealProvider
from tests.oidc.real_op.relying_party import RelyingParty, relying_party


def test_a_page_that_needs_a_session_leads_through_the_provider_and_back(
    rp: RelyingParty, browser: Browser
) -> None:
    assert browser.me(rp).status_code == 401
    page = browser.open(f"{rp.origin}/me")
    assert str(page.url) == f"{rp.origin}/me"
    me = page.json()
    assert (me["sub"], me["generation"]) == ("alice", 0)
    assert (me["identity"]["name"], me["identity"]["email"]) == ("Alice", "alice@example.com")


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "PS256", "EdDSA"])
@pytest.mark.parametrize("is_public", [False, True], ids=["confidential", "public"])
def test_every_algorithm_for_confidential_and_public_clients(
    provider: RealProvider, browser: Browser, algorithm: str, is_public: bool
) -> None:
    registration: dict[str, object] = {"id_token_signed_response_alg": algorithm}
    settings: dict[str, object] = {"id_token_signing_algorithms": (algorithm,)}
    if is_public:
        registration |= {"token_endpoint_auth_method": "none"}
        settings |= {"client_secret": None}
    with relying_party(provider, registration=registration, settings=settings) as rp:
        assert browser.login(rp, user="bob").json()["sub"] == "bob"


def test_userinfo_may_be_a_signed_jwt(provider: RealProvider, browser: Browser) -> None:
    registration: dict[str, object] = {"userinfo_signed_response_alg": "RS256"}
    with relying_party(provider, registration=registration) as rp:
        assert browser.login(rp).json()["identity"]["email"] == "alice@example.com"


def test_signing_in_again_is_asked_for_by_prompt_login(rp: RelyingParty, browser: Browser) -> None:
    browser.login(rp, user="alice")
    assert browser.login(rp, user="bob", prompt="login").json()["sub"] == "bob"
