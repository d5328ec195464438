"""Session Management 1.0, at the last major of oidc-provider that still has it."""

import re
from collections.abc import Iterator

import pytest

from tests.oidc.real_op.browser import Browser
from tests.oidc.real_op.real_provider import RealProvider
from tests.oidc.real_op.relying_party import RelyingParty, relying_party

IFRAME = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "iframe"}


@pytest.fixture
def rp(older_provider: RealProvider) -> Iterator[RelyingParty]:
    """A client that hears of a logout only by asking."""
    with relying_party(older_provider, registration={"backchannel_logout_uri": None}) as served:
        yield served


def silent_check(rp: RelyingParty, browser: Browser) -> str:
    """What the hidden iframe tells its parent."""
    request = browser.http.build_request(
        "GET", f"{rp.origin}/auth/login", params={"silent": "1"}, headers=IFRAME
    )
    answer = browser.finish(request)
    found = re.search(r'data-outcome="([^"]*)"', answer.text)
    assert found is not None, answer.text
    return found[1]


def test_the_page_learns_where_to_ask(
    older_provider: RealProvider, rp: RelyingParty, browser: Browser
) -> None:
    browser.login(rp)
    config = browser.http.get(f"{rp.origin}/auth/session-management").json()
    assert config["supported"] is True
    iframe = config["check_session_iframe"]
    assert iframe.startswith(older_provider.issuer)
    assert "postMessage" in browser.open(iframe).text
    assert browser.http.get(f"{rp.origin}/auth/session").json()["session_state"]


def test_a_silent_check_confirms_the_same_user(rp: RelyingParty, browser: Browser) -> None:
    browser.login(rp)
    rp.time.ahead += 5
    assert silent_check(rp, browser) == "same_user"
    assert browser.me(rp).json()["sub"] == "alice"


def test_a_silent_check_after_signing_out_at_the_provider_is_an_error(
    older_provider: RealProvider, rp: RelyingParty, browser: Browser
) -> None:
    browser.login(rp)
    browser.open(f"{older_provider.issuer}/session/end")
    assert silent_check(rp, browser) == "error"
    assert browser.me(rp).json()["sub"] == "alice"


def test_a_silent_check_with_another_user_at_the_provider_is_an_error(
    older_provider: RealProvider, rp: RelyingParty, browser: Browser
) -> None:
    browser.login(rp, user="alice")
    with relying_party(older_provider) as other:
        browser.login(other, user="bob", prompt="login")
        assert silent_check(rp, browser) == "error"
    assert browser.me(rp).json()["sub"] == "alice"
