"""Other ways for request and answer to travel, and keys that change in between."""

from tests.oidc.real_op.browser import Browser
from tests.oidc.real_op.real_provider import RealProvider
from tests.oidc.real_op.relying_party import RelyingParty, relying_party


def test_a_pushed_request(provider: RealProvider, browser: Browser) -> None:
    registration: dict[str, object] = {"require_pushed_authorization_requests": True}
    with relying_party(provider, registration=registration, settings={"use_par": True}) as rp:
        begun = browser.http.send(browser.login_request(rp))
        assert begun.next_request is not None
        assert set(begun.next_request.url.params) == {"client_id", "request_uri"}
        assert browser.finish(begun.next_request).json()["sub"] == "alice"


def test_an_answer_by_form_post(provider: RealProvider, browser: Browser) -> None:
    with relying_party(provider, settings={"response_mode": "form_post"}) as rp:
        callback = browser.callback_request(rp, browser.login_request(rp))
        assert (callback.method, callback.url.query) == ("POST", b"")
        assert browser.finish(callback).json()["sub"] == "alice"


def test_a_posted_answer_over_http_needs_no_cookie_that_browsers_refuse(
    provider: RealProvider, browser: Browser
) -> None:
    with relying_party(provider, settings={"response_mode": "form_post"}) as rp:
        begun = browser.http.send(browser.login_request(rp))
        assert "SameSite=Lax" in begun.headers["set-cookie"]
        assert "Secure" not in begun.headers["set-cookie"]


def test_new_keys_between_request_and_answer(
    provider: RealProvider, rp: RelyingParty, browser: Browser
) -> None:
    browser.login(rp)
    browser.http.cookies.clear()
    callback = browser.callback_request(rp, browser.login_request(rp))
    provider.rotate_keys()
    assert browser.finish(callback).json()["sub"] == "alice"


def test_new_keys_before_a_refresh(
    provider: RealProvider, rp: RelyingParty, browser: Browser
) -> None:
    browser.login(rp)
    provider.rotate_keys()
    rp.time.ahead += 100
    assert browser.me(rp).json()["generation"] == 1
