"""Signing in at an OpenID Provider that nobody here wrote."""

import httpx
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
    assert page.json() == {
        "sub": "alice",
        "name": "Alice",
        "email": "alice@example.com",
        "generation": 0,
    }


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


def test_an_algorithm_that_is_not_pinned_is_refused(
    provider: RealProvider, browser: Browser
) -> None:
    registration: dict[str, object] = {"id_token_signed_response_alg": "ES256"}
    with relying_party(provider, registration=registration) as rp:
        assert browser.login(rp).status_code == 400
        assert browser.me(rp).status_code == 401


def test_userinfo_may_be_a_signed_jwt(provider: RealProvider, browser: Browser) -> None:
    registration: dict[str, object] = {"userinfo_signed_response_alg": "RS256"}
    with relying_party(provider, registration=registration) as rp:
        assert browser.login(rp).json()["email"] == "alice@example.com"


def test_two_tabs_sign_in_at_once(rp: RelyingParty, browser: Browser) -> None:
    first = browser.login_request(rp, return_to="/me?tab=1")
    second = browser.login_request(rp, return_to="/me?tab=2")
    first_answer = browser.callback_request(rp, first)
    second_answer = browser.callback_request(rp, second)
    for answer, tab in ((second_answer, "2"), (first_answer, "1")):
        page = browser.open(str(answer.url))
        assert (page.status_code, str(page.url)) == (200, f"{rp.origin}/me?tab={tab}")


@pytest.mark.parametrize("state", ["tampered", ""])
def test_a_tampered_state_signs_nobody_in(rp: RelyingParty, browser: Browser, state: str) -> None:
    callback = browser.callback_request(rp, browser.login_request(rp))
    page = browser.open(str(callback.url.copy_set_param("state", state)))
    assert page.status_code == 400
    assert browser.me(rp).status_code == 401


def test_an_answer_of_another_issuer_signs_nobody_in(rp: RelyingParty, browser: Browser) -> None:
    callback = browser.callback_request(rp, browser.login_request(rp))
    page = browser.open(str(callback.url.copy_set_param("iss", "https://evil.test")))
    assert page.status_code == 400
    assert browser.me(rp).status_code == 401


def test_a_callback_in_another_browser_signs_nobody_in(rp: RelyingParty, browser: Browser) -> None:
    callback = browser.callback_request(rp, browser.login_request(rp))
    with httpx.Client() as stranger:
        assert stranger.get(callback.url).status_code == 400
        assert stranger.get(f"{rp.origin}/me").status_code == 401


def test_a_callback_used_again_keeps_the_session_and_exchanges_nothing(
    rp: RelyingParty, browser: Browser
) -> None:
    callback = browser.callback_request(rp, browser.login_request(rp))
    assert browser.open(str(callback.url)).json()["sub"] == "alice"
    again = browser.open(str(callback.url))
    assert (again.status_code, str(again.url)) == (200, f"{rp.origin}/")
    assert rp.event_names == ["login.started", "login.succeeded"]
    assert browser.me(rp).json()["sub"] == "alice"


def test_a_callback_used_again_without_a_session_is_refused(
    rp: RelyingParty, browser: Browser
) -> None:
    callback = browser.callback_request(rp, browser.login_request(rp))
    browser.open(str(callback.url))
    browser.http.cookies.clear()
    assert browser.open(str(callback.url)).status_code == 400
    assert browser.me(rp).status_code == 401


def test_signing_in_again_is_asked_for_by_prompt_login(rp: RelyingParty, browser: Browser) -> None:
    browser.login(rp, user="alice")
    assert browser.login(rp, user="bob", prompt="login").json()["sub"] == "bob"
