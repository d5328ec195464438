"""Signatures: every algorithm that can be registered, and each way to mean another; names ours."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fastapi_oidc import Code
from fastapi_oidc.protocol.json import JSON
from tests.oidc.conformance.relying_party import RelyingParty, relying_party
from tests.oidc.conformance.suite_keys import Members
from tests.oidc.protocol.jose.keypairs import compact, hs, rs, rsa_jwk, rsa_key

ASYMMETRIC = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
EVERY = (*ASYMMETRIC, "EdDSA", "Ed25519", "HS256", "HS384", "HS512")


@pytest.fixture
def rp() -> RelyingParty:
    return relying_party()


@pytest.mark.parametrize("alg", EVERY)
async def test_further_id_token_signed_with_registered_alg(alg: str) -> None:
    await relying_party(id_token_signed_response_alg=alg).must_accept()


@pytest.mark.parametrize("alg", [alg for alg in EVERY if alg != "RS256"])
async def test_further_id_token_signed_with_unregistered_alg(rp: RelyingParty, alg: str) -> None:
    """OpenID Connect Core 3.1.3.7 rule 7, RFC 8725 3.1."""
    rp.op.sign_id_token = lambda claims: rp.op.keys.sign(claims, alg)
    await rp.must_refuse(Code.JWS_ALGORITHM)


@pytest.mark.parametrize("alg", ["rs256", "RS256 ", "", None, ["RS256"]])
async def test_further_id_token_with_alg_written_otherwise(rp: RelyingParty, alg: JSON) -> None:
    """RFC 7515 4.1.1: the name is compared as it stands."""
    rp.op.sign_id_token = lambda claims: rp.op.keys.sign(claims, "RS256", {"alg": alg})
    answer = await rp.sign_in()
    assert answer.json()["code"] in {Code.JWS_ALGORITHM, Code.JWS_MALFORMED}
    assert not await rp.is_signed_in()


async def test_further_id_token_signed_with_public_key_as_secret() -> None:
    """RFC 8725 2.1: the provider's public key is no secret, though HS256 is what it says."""
    rp = relying_party()
    public = rsa_key(rp.op.keys.name("rsa-1")).public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    rp.op.sign_id_token = lambda claims: compact({"alg": "HS256"}, claims, hs(pem))
    await rp.must_refuse(Code.JWS_ALGORITHM)


async def test_further_id_token_signed_with_encryption_key(rp: RelyingParty) -> None:
    """RFC 7517 4.2: a key for encryption verifies nothing."""
    kid = rp.op.keys.name("rsa-enc")
    rp.op.sign_id_token = lambda claims: compact(
        {"alg": "RS256", "kid": kid}, claims, rs(rsa_key(kid))
    )
    await rp.must_refuse(Code.JWS_KEY_MISSING)


async def test_further_id_token_with_key_in_its_header(rp: RelyingParty) -> None:
    """RFC 8725 3.10: a key that a token brings along is not looked at."""
    stranger = rsa_key("stranger")
    header = {"alg": "RS256", "kid": rp.op.keys.name("rsa-1"), "jwk": rsa_jwk(stranger)}
    rp.op.sign_id_token = lambda claims: compact(header, claims, rs(stranger))
    await rp.must_refuse(Code.JWS_SIGNATURE)


async def test_further_id_token_with_critical_extension(rp: RelyingParty) -> None:
    """RFC 7515 4.1.11: what is critical and not understood refuses the token."""
    header: Members = {"b64": False, "crit": ["b64"]}
    rp.op.sign_id_token = lambda claims: rp.op.keys.sign(claims, "RS256", header)
    await rp.must_refuse(Code.JWS_CRITICAL)


async def test_further_userinfo_signed_with_unregistered_alg() -> None:
    """Core 5.3.2; UserInfo is read after the ID token was accepted."""
    rp = relying_party(id_token_signed_response_alg="ES256")
    rp.op.signs_userinfo = True  # with RS256
    answer = await rp.sign_in()
    assert answer.json()["code"] == Code.JWS_ALGORITHM
    assert not await rp.is_signed_in()
    assert rp.op.faults == []
