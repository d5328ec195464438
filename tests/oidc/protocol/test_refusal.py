"""What a refusal of the token endpoint means, and which ones end a session."""

from __future__ import annotations

import pytest

from fastapi_oidc.errors import Code
from fastapi_oidc.protocol.refusal import (
    RefusedClient,
    RefusedGrant,
    RefusedRequest,
    TokenRefused,
    refusal,
)

URL = "https://op.test/token"


@pytest.mark.parametrize(
    ("document", "status", "kind", "code"),
    [
        ({"error": "invalid_grant"}, 400, RefusedGrant, Code.TOKEN_INVALID_GRANT),
        ({"error": "invalid_grant"}, 401, RefusedGrant, Code.TOKEN_INVALID_GRANT),
        ({"error": "interaction_required"}, 400, RefusedGrant, Code.TOKEN_INVALID_GRANT),
        ({"error": "login_required"}, 400, RefusedGrant, Code.TOKEN_INVALID_GRANT),
        ({"error": "consent_required"}, 400, RefusedGrant, Code.TOKEN_INVALID_GRANT),
        ({"error": "invalid_client"}, 401, RefusedClient, Code.TOKEN_INVALID_CLIENT),
        ({"error": "invalid_client"}, 400, RefusedClient, Code.TOKEN_INVALID_CLIENT),
        ({"error": "unauthorized_client"}, 403, RefusedClient, Code.TOKEN_INVALID_CLIENT),
        ({"error": "unknown"}, 401, RefusedClient, Code.TOKEN_INVALID_CLIENT),
        ({"error": "invalid_request"}, 400, RefusedRequest, Code.TOKEN_REFUSED),
        ({"error": "invalid_scope"}, 400, RefusedRequest, Code.TOKEN_REFUSED),
        (None, 400, RefusedRequest, Code.TOKEN_REFUSED),
    ],
)
def test_a_refusal_has_the_kind_and_code_of_its_error(
    document: object, status: int, kind: type[TokenRefused], code: Code
) -> None:
    refused = refusal(document, status, url=URL)
    assert (type(refused), refused.code) == (kind, code)


def test_the_words_of_the_provider_are_escaped_and_cut() -> None:
    document = {"error": "bad\n" + "x" * 999, "error_description": "why\r\n" + "y" * 9999}
    refused = refusal(document, 400, url=URL)
    assert refused.error == r"bad\n" + "x" * 195
    assert refused.description == r"why\r\n" + "y" * 1993
    assert str(refused) == (
        f"token.refused: the provider returned {refused.error} ({refused.description})"
    )
    assert refused.details == {"url": URL, "status": 400}


@pytest.mark.parametrize("name", ["error", "error_description"])
def test_a_secret_that_the_provider_repeats_is_taken_out(name: str) -> None:
    document = {"error": "invalid_request", name: "unknown token s3cr3t-t0ken given"}
    refused = refusal(document, 400, url=URL, sent=["s3cr3t-t0ken", ""])
    assert "unknown token [...] given" in str(refused)
    assert "s3cr3t" not in repr(refused) + str(refused) + str(refused.details)
