"""Signatures: every algorithm that can be registered, and those that were not; names ours."""

import pytest

from fastapi_oidc import Code
from tests.oidc.conformance.relying_party import relying_party

ASYMMETRIC = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
EVERY = (*ASYMMETRIC, "EdDSA", "Ed25519", "HS256", "HS384", "HS512")


@pytest.mark.parametrize("alg", EVERY)
async def test_further_id_token_signed_with_registered_alg(alg: str) -> None:
    await relying_party(signs=alg).must_accept()


@pytest.mark.parametrize("alg", [alg for alg in EVERY if alg != "RS256"])
async def test_further_id_token_signed_with_unregistered_alg(alg: str) -> None:
    """OpenID Connect Core 3.1.3.7 rule 7, RFC 8725 3.1."""
    rp = relying_party(signs=alg, settings={"id_token_signing_algorithms": ["RS256"]})
    await rp.must_refuse(Code.JWS_ALGORITHM)


async def test_further_userinfo_signed_with_unregistered_alg() -> None:
    """Core 5.3.2; UserInfo is read after the ID token was accepted."""
    rp = relying_party(signs="ES256", client={"userinfo_signed_response_alg": "RS256"})
    answer = await rp.sign_in()
    assert answer.json()["code"] == Code.JWS_ALGORITHM
    assert not await rp.is_signed_in()
    rp.must_have_erred_never()
