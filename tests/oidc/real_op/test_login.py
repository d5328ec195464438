"""Signing in and out at an OP that nobody here wrote: authentication, DPoP, the doctor."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from fastapi_oidc import OIDCSettings
from fastapi_oidc.doctor import Finding, Verdict, examine
from fastapi_oidc.testing.keys import public_jwk
from tests.oidc.protocol.jose.keypairs import rsa_key
from tests.oidc.real_op.browser import Browser
from tests.oidc.real_op.real_provider import RealProvider, running_provider
from tests.oidc.real_op.relying_party import SECRET, RelyingParty, relying_party


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


def test_new_keys_before_an_answer_and_before_a_refresh(
    provider: RealProvider, rp: RelyingParty, browser: Browser
) -> None:
    browser.login(rp)
    browser.http.cookies.clear()
    callback = browser.callback_request(rp, browser.login_request(rp))
    provider.rotate_keys()
    assert browser.finish(callback).json()["sub"] == "alice"
    provider.rotate_keys()
    rp.time.ahead += 100
    assert browser.me(rp).json()["generation"] == 1


# The provider's access tokens live 120 seconds; a session is refreshed 30 seconds before.
ALMOST_EXPIRED = 100
A_LONG_TIME = 700


def test_an_expiring_session_is_refreshed_repeatedly(rp: RelyingParty, browser: Browser) -> None:
    browser.login(rp)
    for generation in (1, 2, 3):
        rp.time.ahead += ALMOST_EXPIRED
        me = browser.me(rp).json()
        assert (me["sub"], me["generation"]) == ("alice", generation)
        assert (me["identity"]["name"], me["identity"]["email"]) == ("Alice", "alice@example.com")
    assert rp.event_names.count("session.refreshed") == 3


def test_an_old_cookie_later_presents_no_used_token(rp: RelyingParty, browser: Browser) -> None:
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


def test_logout_when_the_provider_has_no_session(rp: RelyingParty, browser: Browser) -> None:
    browser.login(rp)
    browser.http.cookies.delete("_session")
    page = browser.logout(rp)
    assert (page.status_code, str(page.url)) == (200, f"{rp.origin}/")


async def found(settings: OIDCSettings) -> list[Finding]:
    return [finding async for finding in examine(settings)]


async def test_the_certified_provider_has_no_fault(rp: RelyingParty) -> None:
    findings = await found(rp.oidc.settings)
    assert [finding for finding in findings if finding.verdict is Verdict.FAULT] == []
    topics = {finding.topic for finding in findings if finding.verdict is Verdict.OK}
    assert topics >= {*("discovery", "issuer", "clock", "PKCE", "algorithms", "keys", "client")}
    assert "redirect URI" in topics


@pytest.mark.parametrize(
    ("change", "topic"),
    [
        ({"client_secret": "another-secret-of-32-characters-0"}, "client"),
        ({"id_token_signing_algorithms": ["ES512"]}, "algorithms"),
        ({"base_url": "http://127.0.0.1:1"}, "redirect URI"),
    ],
)
async def test_one_wrong_setting_is_its_only_fault(
    rp: RelyingParty, change: dict[str, object], topic: str
) -> None:
    findings = await found(rp.oidc.settings.model_copy(update=change))
    faults = [finding.topic for finding in findings if finding.verdict is Verdict.FAULT]
    assert faults == [topic]


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


PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

# RFC 6749 A.2 lets a client secret hold printable ASCII, which the current major insists on.
AWKWARD_SECRET = "s:e%c+r e/t&=?#" * 3
NON_ASCII_SECRET = "s:e%c+r e/t ü€漢" * 3


def pem(key: PrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@pytest.mark.parametrize(
    ("method", "secret"),
    [
        ("client_secret_basic", SECRET),
        ("client_secret_basic", AWKWARD_SECRET),
        ("client_secret_post", SECRET),
        ("client_secret_post", AWKWARD_SECRET),
        ("client_secret_jwt", SECRET),
        ("none", None),
    ],
)
def test_with_a_secret_or_none(
    provider: RealProvider, browser: Browser, method: str, secret: str | None
) -> None:
    registration: dict[str, object] = {"token_endpoint_auth_method": method}
    settings: dict[str, object] = {"client_auth_method": method, "client_secret": secret}
    if secret is not None:
        registration["client_secret"] = secret
    with relying_party(provider, registration=registration, settings=settings) as rp:
        assert browser.login(rp).json()["sub"] == "alice"
        rp.time.ahead += 100
        assert browser.me(rp).json()["generation"] == 1


@pytest.mark.parametrize(
    ("algorithm", "key"),
    [
        ("RS256", rsa_key()),
        ("PS256", rsa_key()),
        ("ES256", ec.generate_private_key(ec.SECP256R1())),
        ("EdDSA", ed25519.Ed25519PrivateKey.generate()),
    ],
)
def test_with_a_private_key_of_every_kind(
    provider: RealProvider, browser: Browser, algorithm: str, key: PrivateKey
) -> None:
    settings: dict[str, object] = {
        "client_auth_method": "private_key_jwt",
        "client_private_key": pem(key),
        "client_assertion_algorithm": algorithm,
    }
    registration: dict[str, object] = {
        "token_endpoint_auth_method": "private_key_jwt",
        "token_endpoint_auth_signing_alg": algorithm,
        "jwks": {"keys": [public_jwk(key.public_key()) | {"use": "sig"}]},
    }
    with relying_party(provider, registration=registration, settings=settings) as rp:
        assert browser.login(rp).json()["sub"] == "alice"


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_a_secret_that_is_not_ascii(
    older_provider: RealProvider, browser: Browser, method: str
) -> None:
    secret: dict[str, object] = {"client_secret": NON_ASCII_SECRET}
    registration = secret | {"token_endpoint_auth_method": method}
    settings = secret | {"client_auth_method": method}
    with relying_party(older_provider, registration=registration, settings=settings) as rp:
        assert browser.login(rp).json()["sub"] == "alice"
