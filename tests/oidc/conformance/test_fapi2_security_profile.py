"""FAPI 2.0 Security Profile: pushed requests, `private_key_jwt`, PS256 and a promised `iss`."""

from __future__ import annotations

import pytest

from fastapi_oidc import Code
from tests.oidc.conformance.relying_party import RelyingParty, relying_party
from tests.oidc.conformance.suite_fapi2 import SecurityProfileOP
from tests.oidc.conformance.suite_messages import with_members, with_suffix, without
from tests.oidc.conformance.suite_op import ID_TOKEN_LIFETIME


@pytest.fixture
def rp() -> RelyingParty:
    return relying_party(
        suite=SecurityProfileOP,
        token_endpoint_auth_method="private_key_jwt",
        token_endpoint_auth_signing_alg="PS256",
        id_token_signed_response_alg="PS256",
    )


async def must_refuse_response(rp: RelyingParty, code: Code) -> None:
    """The response is refused before the code is used."""
    await rp.must_refuse(code)
    assert "authorization" in rp.op.calls
    assert "token" not in rp.op.calls


async def test_fapi2_security_profile_final_client_test_happy_path(rp: RelyingParty) -> None:
    await rp.must_accept()
    calls = ["metadata", "pushed request", "authorization", "token", "jwks", "userinfo"]
    assert rp.op.calls == calls


async def test_fapi2_security_profile_final_client_test_discovery_issuer_mismatch(
    rp: RelyingParty,
) -> None:
    rp.op.edits["metadata"] = with_suffix("issuer", "1")
    await rp.must_refuse(Code.PROVIDER_ISSUER_MISMATCH)
    assert rp.op.calls == ["metadata"]


async def test_fapi2_security_profile_final_client_test_invalid_iss(rp: RelyingParty) -> None:
    rp.op.edits["id_token"] = with_suffix("iss", "1")
    await rp.must_refuse(Code.ID_TOKEN_ISSUER)


async def test_fapi2_security_profile_final_client_test_invalid_aud(rp: RelyingParty) -> None:
    rp.op.edits["id_token"] = with_suffix("aud", "1")
    await rp.must_refuse(Code.ID_TOKEN_AUDIENCE)


async def test_fapi2_security_profile_final_client_test_invalid_secondary_aud(
    rp: RelyingParty,
) -> None:
    rp.op.edits["id_token"] = lambda claims: {
        **claims,
        "aud": [claims["aud"], "https://other.test/"],
    }
    await rp.must_refuse(Code.ID_TOKEN_AUDIENCE)


async def test_fapi2_security_profile_final_client_test_invalid_null_alg(rp: RelyingParty) -> None:
    rp.op.sign_id_token = lambda claims: rp.op.keys.sign(claims, "none")
    await rp.must_refuse(Code.JWS_ALGORITHM)


async def test_fapi2_security_profile_final_client_test_invalid_alternate_alg(
    rp: RelyingParty,
) -> None:
    rp.op.sign_id_token = lambda claims: rp.op.keys.sign(claims, "ES256")
    await rp.must_refuse(Code.JWS_ALGORITHM)


async def test_fapi2_security_profile_final_client_test_invalid_expired_exp(
    rp: RelyingParty,
) -> None:
    rp.op.edits["id_token"] = with_members(exp=int(rp.time.now) - ID_TOKEN_LIFETIME)
    await rp.must_refuse(Code.ID_TOKEN_EXPIRED)


async def test_fapi2_security_profile_final_client_test_invalid_missing_exp(
    rp: RelyingParty,
) -> None:
    rp.op.edits["id_token"] = without("exp")
    await rp.must_refuse(Code.ID_TOKEN_EXPIRY)


async def test_fapi2_security_profile_final_client_test_invalid_missing_aud(
    rp: RelyingParty,
) -> None:
    rp.op.edits["id_token"] = without("aud")
    await rp.must_refuse(Code.ID_TOKEN_AUDIENCE)


async def test_fapi2_security_profile_final_client_test_invalid_missing_iss(
    rp: RelyingParty,
) -> None:
    rp.op.edits["id_token"] = without("iss")
    await rp.must_refuse(Code.ID_TOKEN_ISSUER)


async def test_fapi2_security_profile_final_client_test_valid_aud_as_array(
    rp: RelyingParty,
) -> None:
    rp.op.edits["id_token"] = lambda claims: {**claims, "aud": [claims["aud"]]}
    await rp.must_accept()


async def test_fapi2_security_profile_final_client_test_invalid_nonce(rp: RelyingParty) -> None:
    rp.op.edits["id_token"] = with_suffix("nonce", "1")
    await rp.must_refuse(Code.ID_TOKEN_NONCE)


async def test_fapi2_security_profile_final_client_test_invalid_missing_nonce(
    rp: RelyingParty,
) -> None:
    rp.op.edits["id_token"] = without("nonce")
    await rp.must_refuse(Code.ID_TOKEN_NONCE)


async def test_fapi2_security_profile_final_client_test_invalid_authorization_response_iss(
    rp: RelyingParty,
) -> None:
    rp.op.edits["authorization_response"] = with_suffix("iss", "1")
    await must_refuse_response(rp, Code.AUTHORIZATION_ISSUER_MISMATCH)


async def test_fapi2_security_profile_final_client_test_remove_authorization_response_iss(
    rp: RelyingParty,
) -> None:
    rp.op.edits["authorization_response"] = without("iss")
    await must_refuse_response(rp, Code.AUTHORIZATION_ISSUER_MISSING)


async def test_fapi2_security_profile_final_client_test_ensure_authorization_response_with_invalid_state_fails(  # noqa: E501
    rp: RelyingParty,
) -> None:
    rp.op.edits["authorization_response"] = with_suffix("state", "1")
    await must_refuse_response(rp, Code.AUTHORIZATION_TRANSACTION_MISSING)


async def test_fapi2_security_profile_final_client_test_ensure_authorization_response_with_invalid_missing_state_fails(  # noqa: E501
    rp: RelyingParty,
) -> None:
    rp.op.edits["authorization_response"] = without("state")
    await must_refuse_response(rp, Code.AUTHORIZATION_STATE_MISSING)


async def test_fapi2_security_profile_final_client_test_token_endpoint_response_without_expires_in(
    rp: RelyingParty,
) -> None:
    assert rp.op.expires_in is None
    await rp.must_accept()


async def test_fapi2_security_profile_final_client_test_token_type_case_insensitivity(
    rp: RelyingParty,
) -> None:
    rp.op.edits["token_response"] = with_members(token_type="bEAReR")
    await rp.must_accept()
