"""Faults that the FAPI client tests of the suite know, met here by an ordinary code flow."""

from __future__ import annotations

import pytest

from fastapi_oidc import Code
from tests.oidc.conformance.relying_party import RelyingParty, relying_party
from tests.oidc.conformance.suite_messages import with_members, with_suffix, without
from tests.oidc.conformance.suite_op import ID_TOKEN_LIFETIME, ISSUER, SuiteOP


@pytest.fixture
def rp() -> RelyingParty:
    return relying_party()


def with_issuer_promised(op: SuiteOP) -> None:
    """RFC 9207: the provider says it sends `iss`, and does."""
    op.edits["metadata"] = with_members(authorization_response_iss_parameter_supported=True)
    op.edits["authorization_response"] = with_members(iss=ISSUER)


async def must_refuse_response(rp: RelyingParty, code: Code) -> None:
    """The response is refused before the code is used."""
    await rp.must_refuse(code)
    assert rp.op.calls[:2] == ["metadata", "authorization"]
    assert "token" not in rp.op.calls


async def test_further_happy_path_with_issuer(rp: RelyingParty) -> None:
    with_issuer_promised(rp.op)
    await rp.must_accept()


async def test_further_response_without_state(rp: RelyingParty) -> None:
    rp.op.edits["authorization_response"] = without("state")
    await must_refuse_response(rp, Code.AUTHORIZATION_STATE_MISSING)


async def test_further_response_with_wrong_state(rp: RelyingParty) -> None:
    rp.op.edits["authorization_response"] = with_suffix("state", "1")
    await must_refuse_response(rp, Code.AUTHORIZATION_TRANSACTION_MISSING)


async def test_further_response_with_wrong_issuer(rp: RelyingParty) -> None:
    with_issuer_promised(rp.op)
    rp.op.edits["authorization_response"] = with_members(iss=ISSUER + "1")
    await must_refuse_response(rp, Code.AUTHORIZATION_ISSUER_MISMATCH)


async def test_further_response_without_promised_issuer(rp: RelyingParty) -> None:
    with_issuer_promised(rp.op)
    rp.op.edits["authorization_response"] = without("iss")
    await must_refuse_response(rp, Code.AUTHORIZATION_ISSUER_MISSING)


async def test_further_response_with_wrong_issuer_not_promised(rp: RelyingParty) -> None:
    rp.op.edits["authorization_response"] = with_members(iss="https://other.test/")
    await must_refuse_response(rp, Code.AUTHORIZATION_ISSUER_MISMATCH)


async def test_further_id_token_expired(rp: RelyingParty) -> None:
    rp.op.edits["id_token"] = with_members(exp=int(rp.time.now) - ID_TOKEN_LIFETIME)
    await rp.must_refuse(Code.ID_TOKEN_EXPIRED)


async def test_further_id_token_without_exp(rp: RelyingParty) -> None:
    rp.op.edits["id_token"] = without("exp")
    await rp.must_refuse(Code.ID_TOKEN_EXPIRY)


async def test_further_id_token_without_iss(rp: RelyingParty) -> None:
    rp.op.edits["id_token"] = without("iss")
    await rp.must_refuse(Code.ID_TOKEN_ISSUER)


async def test_further_id_token_without_nonce(rp: RelyingParty) -> None:
    rp.op.edits["id_token"] = without("nonce")
    await rp.must_refuse(Code.ID_TOKEN_NONCE)


async def test_further_id_token_with_invalid_at_hash(rp: RelyingParty) -> None:
    rp.op.edits["id_token"] = with_members(at_hash="77QmUPtjPfzWtF2AnpK9RQ")
    await rp.must_refuse(Code.ID_TOKEN_ACCESS_TOKEN_HASH)


async def test_further_id_token_with_another_alg(rp: RelyingParty) -> None:
    rp.op.sign_id_token = lambda claims: rp.op.keys.sign(claims, "PS256")
    await rp.must_refuse(Code.JWS_ALGORITHM)


async def test_further_id_token_with_untrusted_audience(rp: RelyingParty) -> None:
    audiences = [rp.op.client.client_id, "https://other.test/"]
    rp.op.edits["id_token"] = lambda claims: {**claims, "aud": [*audiences]}
    await rp.must_refuse(Code.ID_TOKEN_AUDIENCE)


async def test_further_id_token_with_audience_in_list(rp: RelyingParty) -> None:
    rp.op.edits["id_token"] = lambda claims: {**claims, "aud": [claims["aud"]]}
    await rp.must_accept()


async def test_further_token_response_without_expires_in(rp: RelyingParty) -> None:
    rp.op.edits["token_response"] = without("expires_in")
    await rp.must_accept()


async def test_further_token_type_in_odd_case(rp: RelyingParty) -> None:
    rp.op.edits["token_response"] = with_members(token_type="bEAReR")
    await rp.must_accept()


async def test_further_token_type_dpop(rp: RelyingParty) -> None:
    rp.op.edits["token_response"] = with_members(token_type="DPoP")
    await rp.must_refuse(Code.TOKEN_TYPE)


async def test_further_signing_key_rotation_without_kid(rp: RelyingParty) -> None:
    rp.op.keys.with_kid = False
    await rp.must_accept()
    rp.op.keys.rotate()
    rp.op.userinfo_tokens.clear()
    await rp.must_accept()


@pytest.mark.parametrize("alg", ["PS256", "EdDSA"])
async def test_further_id_token_signed_with_registered_alg(alg: str) -> None:
    await relying_party(id_token_signed_response_alg=alg).must_accept()


async def test_further_public_client() -> None:
    await relying_party(token_endpoint_auth_method="none").must_accept()
