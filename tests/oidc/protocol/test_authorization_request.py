from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest

from fastapi_oidc.errors import Code, ConfigurationError, ProviderError
from fastapi_oidc.protocol.authorization import (
    PROTECTED_PARAMETERS,
    AuthorizationRequest,
    code_challenge,
    pushed_request_uri,
    pushed_request_url,
    require_unprotected,
)
from tests.oidc.protocol.examples import CLIENT_ID, refused

REQUEST = AuthorizationRequest(
    client_id=CLIENT_ID,
    redirect_uri="https://app.test/auth/callback",
    scope=("openid", "profile", "email"),
    state="state-1",
    nonce="nonce-1",
    code_challenge="challenge-1",
)

REQUIRED = {
    "response_type": "code",
    "client_id": CLIENT_ID,
    "redirect_uri": "https://app.test/auth/callback",
    "scope": "openid profile email",
    "state": "state-1",
    "nonce": "nonce-1",
    "code_challenge": "challenge-1",
    "code_challenge_method": "S256",
}


def test_a_plain_request_sends_nothing_more_than_it_must() -> None:
    assert REQUEST.parameters() == REQUIRED


@pytest.mark.parametrize(
    ("scope", "sent"),
    [((), "openid"), (("email",), "openid email"), (("email", "openid", "email"), "openid email")],
)
def test_openid_is_always_in_the_scope(scope: tuple[str, ...], sent: str) -> None:
    assert replace(REQUEST, scope=scope).parameters()["scope"] == sent


def test_optional_parameters_are_sent_when_set() -> None:
    request = replace(
        REQUEST,
        response_mode="form_post",
        prompt="none",
        login_hint="alice@example.com",
        id_token_hint="a.b.c",
        max_age=0,
        extra_params={"ui_locales": "de", "prompt": "login"},
    )
    assert request.parameters() == {
        **REQUIRED,
        "response_mode": "form_post",
        "prompt": "none",
        "login_hint": "alice@example.com",
        "id_token_hint": "a.b.c",
        "max_age": "0",
        "ui_locales": "de",
    }


def test_the_id_token_does_not_show() -> None:
    assert "a.b.c" not in repr(replace(REQUEST, id_token_hint="a.b.c"))


def test_the_url_extends_the_query_of_the_endpoint() -> None:
    url = urlsplit(REQUEST.url("https://op.test/authorize?tenant=1"))
    expected = {"tenant": ["1"], **{name: [value] for name, value in REQUIRED.items()}}
    assert parse_qs(url.query) == expected


@pytest.mark.parametrize("name", sorted(PROTECTED_PARAMETERS))
def test_extra_parameters_cannot_set_a_protected_one(name: str) -> None:
    with refused(Code.CONFIGURATION_PROTECTED_PARAMETER, ConfigurationError):
        require_unprotected({"ui_locales": "de", name: "x"})
    with refused(Code.CONFIGURATION_PROTECTED_PARAMETER, ConfigurationError):
        replace(REQUEST, extra_params={name: "x"})


def test_everything_a_check_relies_on_is_protected() -> None:
    assert {"state", "nonce", "redirect_uri", "client_id"} <= PROTECTED_PARAMETERS
    assert REQUIRED.keys() <= PROTECTED_PARAMETERS


def test_other_extra_parameters_are_free() -> None:
    require_unprotected({"audience": "api", "acr_values": "2", "prompt": "consent"})


def test_a_pushed_request_is_named_by_its_uri_alone() -> None:
    request_uri = pushed_request_uri({"request_uri": "urn:example:1&2", "expires_in": 60})
    url = urlsplit(pushed_request_url("https://op.test/authorize", CLIENT_ID, request_uri))
    assert parse_qs(url.query) == {"client_id": [CLIENT_ID], "request_uri": ["urn:example:1&2"]}


@pytest.mark.parametrize(
    "document",
    [None, [], {}, *({"request_uri": each} for each in (None, "", "a\nb", "a b", "a" * 4097))],
)
def test_a_pushed_authorization_response_has_a_request_uri(document: object) -> None:
    with refused(Code.PROVIDER_ANSWER_MALFORMED, ProviderError):
        pushed_request_uri(document)


def test_the_example_of_rfc_7636_appendix_b() -> None:
    assert (
        code_challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
        == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    )


@pytest.mark.parametrize("verifier", ["a" * 43, "a" * 128, "-._~" * 20])
def test_a_verifier_of_allowed_length_and_characters(verifier: str) -> None:
    assert len(code_challenge(verifier)) == 43


@pytest.mark.parametrize(
    "verifier", ["", "a" * 42, "a" * 129, "a" * 42 + "+", "a" * 42 + "é", "a" * 43 + "\n"]
)
def test_any_other_verifier_is_refused(verifier: str) -> None:
    with pytest.raises(ValueError, match="7636"):
        code_challenge(verifier)
