"""The token endpoint: both grants, client authentication, refusals (RFC 6749 5)."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fastapi_oidc.errors import Code, ProviderError
from fastapi_oidc.protocol.client_auth import SignedAssertion
from fastapi_oidc.protocol.jose.compact import CompactJWS
from fastapi_oidc.protocol.jose.sign import Signer
from fastapi_oidc.protocol.refusal import RefusedGrant, TokenRefused
from fastapi_oidc.protocol.token import TokenResponse
from tests.oidc.provider.op import ISSUER, NOW, OP


@pytest.mark.parametrize(
    ("choice", "audience"), [("issuer", ISSUER), ("token_endpoint", "https://op.test/token")]
)
async def test_an_assertion_names_the_chosen_audience(op: OP, choice: str, audience: str) -> None:
    authentication = SignedAssertion("console", Signer.of_private_key(Ed25519PrivateKey.generate()))
    provider = op.provider(
        authentication=authentication,
        assertion_audience="issuer" if choice == "issuer" else "token_endpoint",
    )
    await provider.refresh("rt")
    claims = CompactJWS.parse(op.last_form()["client_assertion"]).claims()
    assert (claims["aud"], claims["iat"]) == (audience, NOW)


async def test_no_assertion_is_sent_twice(op: OP) -> None:
    authentication = SignedAssertion("console", Signer.of_private_key(Ed25519PrivateKey.generate()))
    provider = op.provider(authentication=authentication)
    ids = set()
    for _ in range(3):
        await provider.refresh("rt")
        ids.add(CompactJWS.parse(op.last_form()["client_assertion"]).claims()["jti"])
    assert len(ids) == 3


@pytest.mark.parametrize(
    ("status", "media_type", "body"),
    [
        (404, "text/plain", "404 page not found"),
        (403, "text/html", "<h1>Forbidden</h1>"),
        (403, "application/json", '{"message": "Forbidden"}'),
        (401, "text/html", ""),
        (400, "text/html", "<h1>Bad request</h1>"),
        (400, "application/json", '{"error": ["invalid_grant"]}'),
        (400, "text/html", '{"error": "invalid_grant"}'),
    ],
)
async def test_what_is_no_oauth_error_refuses_nothing(
    op: OP, status: int, media_type: str, body: str
) -> None:
    """The page of a proxy without its backend, and of a firewall."""
    op.answer_text("/token", body, media_type, status=status)
    with pytest.raises(ProviderError, match=f"HTTP {status}.*a proxy or a firewall") as caught:
        await op.provider().refresh("rt")
    assert caught.value.code is Code.PROVIDER_REFUSAL_UNREADABLE
    assert caught.value.status == 503
    assert not isinstance(caught.value, TokenRefused)


@pytest.mark.parametrize("status", [201, 408, 429, 500, 502, 503])
async def test_a_status_that_may_pass_is_no_refusal(op: OP, status: int) -> None:
    op.answer("/token", {"error": "invalid_grant"}, status=status)
    with pytest.raises(ProviderError) as caught:
        await op.provider().refresh("rt")
    assert caught.value.code == Code.PROVIDER_STATUS
    assert not isinstance(caught.value, TokenRefused)


@pytest.mark.parametrize("error", ["server_error", "temporarily_unavailable"])
async def test_an_error_that_passes_is_no_refusal(op: OP, error: str) -> None:
    op.answer("/token", {"error": error}, status=400)
    with pytest.raises(ProviderError, match=f"HTTP 400: {error}") as caught:
        await op.provider().refresh("rt")
    assert caught.value.code == Code.PROVIDER_STATUS


async def test_an_error_under_status_200_is_that_error(op: OP) -> None:
    op.answer("/token", {"error": "invalid_grant", "error_description": "over"})
    with pytest.raises(RefusedGrant, match=r"the provider returned invalid_grant \(over\)"):
        await op.provider().refresh("rt")


async def test_no_error_holds_a_secret(op: OP) -> None:
    op.answer_text("/token", '{"access_token": "secret-at", ', "application/json")
    with pytest.raises(ProviderError) as caught:
        TokenResponse.read(await op.provider().refresh("secret-rt"))
    assert caught.value.code == Code.TOKEN_MALFORMED
    told = [str(caught.value), str(caught.value.details), repr(caught.value.__cause__)]
    assert "secret" not in "".join(told)
