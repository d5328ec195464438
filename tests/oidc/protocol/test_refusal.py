"""What a refusal of the token endpoint means, and which ones end a session."""

from __future__ import annotations

import pytest

from fastapi_oidc.errors import Code
from fastapi_oidc.protocol.refusal import GRANT_OVER, refusal

URL = "https://op.test/token"
CLAIMED = (
    "clientID app refresh token (ID abc) is invalid or has already been claimed by another client."
)


@pytest.mark.parametrize(
    ("document", "status", "code"),
    [
        ({"error": "invalid_grant"}, 400, Code.TOKEN_INVALID_GRANT),
        ({"error": "invalid_grant"}, 401, Code.TOKEN_INVALID_GRANT),
        ({"error": "invalid_client"}, 401, Code.TOKEN_INVALID_CLIENT),
        ({"error": "invalid_client"}, 400, Code.TOKEN_INVALID_CLIENT),
        ({"error": "unauthorized_client"}, 401, Code.TOKEN_INVALID_CLIENT),
        ({"error": "unauthorized_client"}, 400, Code.TOKEN_REFUSED),
        ({"error": "invalid_scope"}, 400, Code.TOKEN_REFUSED),
        ({"error": ["invalid_grant"]}, 400, Code.TOKEN_REFUSED),
        ({}, 401, Code.TOKEN_INVALID_CLIENT),
        ({}, 403, Code.TOKEN_REFUSED),
        (None, 400, Code.TOKEN_REFUSED),
        ("invalid_grant", 400, Code.TOKEN_REFUSED),
    ],
)
def test_a_refusal_has_the_code_of_its_error(document: object, status: int, code: Code) -> None:
    assert refusal(document, status, url=URL).code is code


def test_only_a_grant_that_is_over_is_final() -> None:
    assert refusal({"error": "invalid_grant"}, 400, url=URL).is_final
    for error in ("invalid_client", "unauthorized_client", "invalid_scope", "invalid_request"):
        assert not refusal({"error": error}, 401, url=URL).is_final


@pytest.mark.parametrize(
    ("description", "is_final"),
    [
        ("Refresh token is invalid or has already been claimed by another client.", True),
        (CLAIMED, True),
        ("Refresh token expired.", True),
        ("No refresh token is found in request.", False),
        ("Requested scopes contain unauthorized scope(s)", False),
        ("", False),
    ],
)
def test_dex_says_invalid_request_of_a_dead_refresh_token(description: str, is_final: bool) -> None:
    document = {"error": "invalid_request", "error_description": description}
    assert refusal(document, 400, url=URL).is_final is is_final


@pytest.mark.parametrize("error", ["interaction_required", "login_required", "consent_required"])
def test_a_provider_that_wants_to_see_the_user_ends_the_session(error: str) -> None:
    assert refusal({"error": error}, 400, url=URL).is_final


def test_every_rule_names_its_source() -> None:
    assert all(way.rule and way.source for way in GRANT_OVER)


def test_the_words_of_the_provider_are_cleaned_cut_and_on_one_line() -> None:
    document = {"error": "bad\n" + "x" * 999, "error_description": "why\r\n" + "y" * 999}
    refused = refusal(document, 400, url=URL)
    assert refused.error == "bad?" + "x" * 196
    assert refused.description == "why??" + "y" * 195
    assert str(refused) == (
        f"token.refused: the provider answered {refused.error} ({refused.description})"
    )
    assert refused.details == {"url": URL, "status": 400}


@pytest.mark.parametrize("name", ["error", "error_description"])
def test_a_secret_that_the_provider_repeats_is_taken_out(name: str) -> None:
    document = {"error": "invalid_request", name: "unknown token s3cr3t-t0ken given"}
    refused = refusal(document, 400, url=URL, sent=["s3cr3t-t0ken", ""])
    assert "unknown token [...] given" in str(refused)
    assert "s3cr3t" not in repr(refused) + str(refused) + str(refused.details)
