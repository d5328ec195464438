"""FAPI 2.0 Security Profile: pushed requests, `private_key_jwt`, PS256 and a promised `iss`."""

from __future__ import annotations

import pytest

from fastapi_oidc import Code
from tests.oidc.conformance.relying_party import RelyingParty, relying_party
from tests.oidc.conformance.suite_fapi2 import SecurityProfileOP
from tests.oidc.conformance.suite_messages import Refusals, with_members, with_suffix, without
from tests.oidc.conformance.suite_op import ID_TOKEN_LIFETIME
from tests.oidc.world import Time

PLAN = "fapi2-security-profile-final-client-test"
EXPIRED = int(Time().now) - ID_TOKEN_LIFETIME


@pytest.fixture
def rp() -> RelyingParty:
    return relying_party(
        suite=SecurityProfileOP,
        token_endpoint_auth_method="private_key_jwt",
        token_endpoint_auth_signing_alg="PS256",
        id_token_signed_response_alg="PS256",
    )


ID_TOKENS: Refusals = {
    f"{PLAN}-invalid-iss": (with_suffix("iss", "1"), Code.ID_TOKEN_ISSUER),
    f"{PLAN}-invalid-aud": (with_suffix("aud", "1"), Code.ID_TOKEN_AUDIENCE),
    f"{PLAN}-invalid-secondary-aud": (
        lambda claims: {**claims, "aud": [claims["aud"], "https://other.test/"]},
        Code.ID_TOKEN_AUDIENCE,
    ),
    f"{PLAN}-invalid-expired-exp": (with_members(exp=EXPIRED), Code.ID_TOKEN_EXPIRED),
    f"{PLAN}-invalid-missing-exp": (without("exp"), Code.ID_TOKEN_EXPIRY),
    f"{PLAN}-invalid-missing-aud": (without("aud"), Code.ID_TOKEN_AUDIENCE),
    f"{PLAN}-invalid-missing-iss": (without("iss"), Code.ID_TOKEN_ISSUER),
    f"{PLAN}-invalid-nonce": (with_suffix("nonce", "1"), Code.ID_TOKEN_NONCE),
    f"{PLAN}-invalid-missing-nonce": (without("nonce"), Code.ID_TOKEN_NONCE),
}
SIGNED_OTHERWISE = {f"{PLAN}-invalid-null-alg": "none", f"{PLAN}-invalid-alternate-alg": "ES256"}
RESPONSES: Refusals = {
    f"{PLAN}-invalid-authorization-response-iss": (
        with_suffix("iss", "1"),
        Code.AUTHORIZATION_ISSUER_MISMATCH,
    ),
    f"{PLAN}-remove-authorization-response-iss": (
        without("iss"),
        Code.AUTHORIZATION_ISSUER_MISSING,
    ),
    f"{PLAN}-ensure-authorization-response-with-invalid-state-fails": (
        with_suffix("state", "1"),
        Code.AUTHORIZATION_TRANSACTION_MISSING,
    ),
    f"{PLAN}-ensure-authorization-response-with-invalid-missing-state-fails": (
        without("state"),
        Code.AUTHORIZATION_STATE_MISSING,
    ),
}


@pytest.mark.parametrize("module", ID_TOKENS)
async def test_an_id_token_is_refused(rp: RelyingParty, module: str) -> None:
    rp.op.edits["id_token"], code = ID_TOKENS[module]
    await rp.must_refuse(code)


@pytest.mark.parametrize("module", SIGNED_OTHERWISE)
async def test_a_signature_is_refused(rp: RelyingParty, module: str) -> None:
    rp.op.sign_id_token = lambda claims: rp.op.keys.sign(claims, SIGNED_OTHERWISE[module])
    await rp.must_refuse(Code.JWS_ALGORITHM)


@pytest.mark.parametrize("module", RESPONSES)
async def test_a_response_is_refused_before_its_code_is_used(rp: RelyingParty, module: str) -> None:
    rp.op.edits["authorization_response"], code = RESPONSES[module]
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


async def test_fapi2_security_profile_final_client_test_valid_aud_as_array(
    rp: RelyingParty,
) -> None:
    rp.op.edits["id_token"] = lambda claims: {**claims, "aud": [claims["aud"]]}
    await rp.must_accept()


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
