"""What the log says of a refusal is enough to put right what is configured wrongly."""

import pytest

from fastapi_oidc.errors import Code, ProtocolViolation
from fastapi_oidc.protocol.authorization import AuthorizationRefused
from fastapi_oidc.protocol.claims import require_issuer
from fastapi_oidc.protocol.encoding import JSON
from fastapi_oidc.protocol.id_token import accept_id_token
from fastapi_oidc.protocol.metadata import Tenants
from fastapi_oidc.protocol.refusal import refusal
from tests.oidc.protocol.examples import AT, ISSUER, NOW, changed
from tests.oidc.protocol.id_tokens import EXPECTED, VALID

TENANT = "11111111-aaaa-4444-8888-000000000000"


def test_of_another_issuer_both_are_named() -> None:
    with pytest.raises(ProtocolViolation) as caught:
        require_issuer({"iss": "https://other.test"}, ISSUER, Code.ID_TOKEN_ISSUER)
    assert caught.value.explanation == (
        "iss is 'https://other.test', the configured issuer 'https://op.test/'"
    )


def test_of_another_tenants_issuer_both_are_named() -> None:
    tenants = Tenants.of("https://login.test/common/v2.0", ["*"])
    with pytest.raises(ProtocolViolation) as caught:
        tenants.require({"tid": TENANT, "iss": "https://login.test/x/v2.0"}, Code.ID_TOKEN_ISSUER)
    assert caught.value.explanation == (
        f"iss is 'https://login.test/x/v2.0', not 'https://login.test/{TENANT}/v2.0' as tid says"
    )


@pytest.mark.parametrize(
    ("change", "explanation"),
    [
        ({"iat": NOW + 40}, "iat is 40 s ahead of this clock; clock_drift is 30"),
        ({"nbf": NOW + 90}, "nbf is 90 s ahead of this clock; clock_drift is 30"),
        ({"iat": NOW + 40, "nbf": None}, "iat is 40 s ahead of this clock; clock_drift is 30"),
        ({"auth_time": NOW - 4000}, "authenticated 4000 s ago by this clock; max_age is 3600"),
    ],
)
def test_times_are_explained_by_their_difference_to_this_clock(
    change: dict[str, JSON], explanation: str
) -> None:
    with pytest.raises(ProtocolViolation) as caught:
        accept_id_token(changed(VALID, change), EXPECTED, AT)
    assert caught.value.explanation == explanation


@pytest.mark.parametrize(
    ("error", "description", "explanation"),
    [
        ("access_denied", "", "the provider returned access_denied (nothing more)"),
        ("access_denied", "not you", "the provider returned access_denied (not you)"),
        (
            "invalid_scope",
            "",
            "the provider returned invalid_scope (nothing more); the setting scope asks for "
            "openid email",
        ),
    ],
)
def test_a_refused_login_has_the_providers_words_and_advice(
    error: str, description: str, explanation: str
) -> None:
    refused = AuthorizationRefused(error, description, ("openid", "email"))
    assert (refused.explanation, refused.details) == (explanation, {"error": error})


def test_only_an_offline_access_that_was_asked_for_is_suspected() -> None:
    refused = AuthorizationRefused("invalid_scope", "", ("openid", "offline_access"))
    assert refused.explanation.endswith("; some providers do not know offline_access")


@pytest.mark.parametrize(
    ("document", "explanation"),
    [
        ({"error": "invalid_grant"}, "the provider returned invalid_grant"),
        ({"error": 1, "error_description": 2}, "the provider returned status 400"),
    ],
)
def test_a_refused_grant_has_the_providers_words(document: object, explanation: str) -> None:
    assert refusal(document, 400, url=ISSUER).explanation == explanation


def test_a_refused_client_names_the_settings_that_may_be_wrong() -> None:
    error = refusal({"error": "invalid_client"}, 401, url=ISSUER)
    assert error.details == {
        "url": ISSUER,
        "status": 401,
        "setting": "client_id, client_auth_method and what belongs to it",
    }
