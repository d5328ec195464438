"""Signatures: every algorithm that can be registered, and each way to mean another; names ours."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from fastapi_oidc import Code
from tests.oidc.conformance.relying_party import (
    RelyingParty,
    relying_party,
    with_keys,
    with_members,
)
from tests.oidc.protocol.jose.keypairs import hs, rs, rsa_jwk, rsa_key
from tests.oidc.testing.assertions import public_pem

ASYMMETRIC = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
EVERY = (*ASYMMETRIC, "EdDSA", "Ed25519", "HS256", "HS384", "HS512")


@pytest.fixture
def rp() -> RelyingParty:
    return relying_party()


@pytest.mark.parametrize("alg", EVERY)
async def test_further_id_token_signed_with_registered_alg(alg: str) -> None:
    await relying_party(signs=alg).must_accept()


@pytest.mark.parametrize("alg", [alg for alg in EVERY if alg != "RS256"])
async def test_further_id_token_signed_with_unregistered_alg(alg: str) -> None:
    """OpenID Connect Core 3.1.3.7 rule 7, RFC 8725 3.1."""
    rp = relying_party(signs=alg, settings={"id_token_signing_algorithms": ["RS256"]})
    await rp.must_refuse(Code.JWS_ALGORITHM)


@pytest.mark.parametrize("alg", ["rs256", "RS256 ", "", None, ["RS256"]])
async def test_further_id_token_with_alg_written_otherwise(
    rp: RelyingParty, alg: JsonValue
) -> None:
    """RFC 7515 4.1.1: the name is compared as it stands."""
    rp.edit("id_token_header", with_members(alg=alg))
    answer = await rp.sign_in()
    assert answer.json()["code"] in {Code.JWS_ALGORITHM, Code.JWS_MALFORMED}
    assert not await rp.is_signed_in()


async def test_further_id_token_signed_with_public_key_as_secret(rp: RelyingParty) -> None:
    """RFC 8725 2.1: the provider's public key is no secret, though HS256 is what it says."""
    key = rsa_key("published")
    rp.edit("jwks", with_keys(rsa_jwk(key, use="sig")))
    rp.sign_id_tokens({"alg": "HS256"}, hs(public_pem(key)))
    await rp.must_refuse(Code.JWS_ALGORITHM)


async def test_further_id_token_signed_with_encryption_key(rp: RelyingParty) -> None:
    """RFC 7517 4.2: a key for encryption verifies nothing."""
    key = rsa_key("for encryption")
    rp.edit("jwks", with_keys(rsa_jwk(key, kid="enc", use="enc")))
    rp.sign_id_tokens({"alg": "RS256", "kid": "enc"}, rs(key))
    await rp.must_refuse(Code.JWS_KEY_MISSING)


async def test_further_id_token_with_key_in_its_header(rp: RelyingParty) -> None:
    """RFC 8725 3.10: a key that a token brings along is not looked at."""
    published, stranger = rsa_key("published"), rsa_key("stranger")
    rp.edit("jwks", with_keys(rsa_jwk(published, kid="published", use="sig")))
    header: dict[str, JsonValue] = {"alg": "RS256", "kid": "published", "jwk": rsa_jwk(stranger)}
    rp.sign_id_tokens(header, rs(stranger))
    await rp.must_refuse(Code.JWS_SIGNATURE)


async def test_further_id_token_with_critical_extension(rp: RelyingParty) -> None:
    """RFC 7515 4.1.11: what is critical and not understood refuses the token."""
    rp.edit("id_token_header", with_members(b64=False, crit=["b64"]))
    await rp.must_refuse(Code.JWS_CRITICAL)


async def test_further_userinfo_signed_with_unregistered_alg() -> None:
    """Core 5.3.2; UserInfo is read after the ID token was accepted."""
    rp = relying_party(signs="ES256", client={"userinfo_signed_response_alg": "RS256"})
    answer = await rp.sign_in()
    assert answer.json()["code"] == Code.JWS_ALGORITHM
    assert not await rp.is_signed_in()
    rp.must_have_erred_never()
