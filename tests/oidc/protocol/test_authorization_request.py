import pytest

from fastapi_oidc.errors import Code, ConfigurationError, ProviderError
from fastapi_oidc.protocol.authorization import (
    PROTECTED_PARAMETERS,
    authorization_parameters,
    code_challenge,
    pushed_request_uri,
    require_unprotected,
    with_openid,
)
from tests.oidc.protocol.examples import CLIENT_ID, refused

OWN = {
    "client_id": CLIENT_ID,
    "redirect_uri": "https://app.test/auth/callback",
    "scope": ("openid", "profile", "email"),
    "state": "state-1",
    "nonce": "nonce-1",
    "code_challenge": "challenge-1",
}

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


@pytest.mark.parametrize(
    ("scope", "sent"),
    [
        ((), ("openid",)),
        (("email",), ("openid", "email")),
        (("email", "openid", "email"), ("openid", "email")),
    ],
)
def test_openid_is_always_in_the_scope(scope: tuple[str, ...], sent: tuple[str, ...]) -> None:
    assert with_openid(scope) == sent


def test_parameters_are_sent_when_they_have_a_value() -> None:
    nothing = {"prompt": None, "login_hint": "", "acr_values": ()}
    assert authorization_parameters({}, **OWN, **nothing) == REQUIRED
    parameters = authorization_parameters(
        {"ui_locales": "de", "prompt": "login"}, **OWN, prompt="none", max_age=0
    )
    assert parameters == REQUIRED | {"ui_locales": "de", "prompt": "none", "max_age": "0"}


@pytest.mark.parametrize("name", sorted(PROTECTED_PARAMETERS))
def test_extra_parameters_cannot_set_a_protected_one(name: str) -> None:
    with refused(Code.CONFIGURATION_PROTECTED_PARAMETER, ConfigurationError):
        require_unprotected({"ui_locales": "de", name: "x"})
    with refused(Code.CONFIGURATION_PROTECTED_PARAMETER, ConfigurationError):
        authorization_parameters({name: "x"}, **OWN)


def test_everything_a_check_relies_on_is_protected() -> None:
    assert REQUIRED.keys() <= PROTECTED_PARAMETERS


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
