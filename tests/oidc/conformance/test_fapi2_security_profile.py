"""FAPI 2.0 Security Profile: pushed requests, `private_key_jwt`, PS256 and a promised `iss`."""

import pytest

from fastapi_oidc import Code
from fastapi_oidc.testing import AuthorizationRequested
from tests.oidc.conformance.relying_party import (
    METADATA,
    Refusals,
    RelyingParty,
    with_members,
    with_method,
    with_suffix,
    without,
)
from tests.oidc.world import Time

PLAN = "fapi2-security-profile-final-client-test"
EXPIRED = int(Time().now) - 300


@pytest.fixture
def rp() -> RelyingParty:
    rp = with_method("private_key_jwt", assertions="PS256", signs="PS256")
    rp.edit(
        "metadata",
        with_members(
            require_pushed_authorization_requests=True,
            token_endpoint_auth_methods_supported=["private_key_jwt", "tls_client_auth"],
            id_token_signing_alg_values_supported=["PS256", "ES256", "EdDSA"],
        ),
    )
    return rp


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
    edit, code = ID_TOKENS[module]
    rp.edit("id_token", edit)
    await rp.must_refuse(code)


@pytest.mark.parametrize("module", SIGNED_OTHERWISE)
async def test_a_signature_is_refused(rp: RelyingParty, module: str) -> None:
    rp.edit("id_token_header", with_members(alg=SIGNED_OTHERWISE[module]))
    await rp.must_refuse(Code.JWS_ALGORITHM)


@pytest.mark.parametrize("module", RESPONSES)
async def test_a_response_is_refused_before_its_code_is_used(rp: RelyingParty, module: str) -> None:
    edit, code = RESPONSES[module]
    rp.edit("authorization_response", edit)
    await rp.must_refuse(code)
    assert rp.world.op.record.of(AuthorizationRequested)
    assert "/token" not in rp.paths


async def test_fapi2_security_profile_final_client_test_happy_path(rp: RelyingParty) -> None:
    """FAPI 2.0 Security Profile 5.3.2.2: the browser brings the reference and no parameters."""
    begun = await rp.browser.get("/auth/login", follow_redirects=False)
    assert begun.next_request is not None
    assert set(begun.next_request.url.params) == {"client_id", "request_uri"}
    rp.paths.clear()
    await rp.must_accept()
    assert rp.world.op.record.of(AuthorizationRequested)[-1].pushed
    assert rp.paths == ["/par", "/token", "/jwks", "/userinfo"]


async def test_fapi2_security_profile_final_client_test_discovery_issuer_mismatch(
    rp: RelyingParty,
) -> None:
    rp.edit("metadata", with_suffix("issuer", "1"))
    await rp.must_refuse(Code.PROVIDER_ISSUER_MISMATCH)
    assert rp.paths == [METADATA]


async def test_fapi2_security_profile_final_client_test_valid_aud_as_array(
    rp: RelyingParty,
) -> None:
    rp.edit("id_token", lambda claims: {**claims, "aud": [claims["aud"]]})
    await rp.must_accept()


async def test_fapi2_security_profile_final_client_test_token_endpoint_response_without_expires_in(
    rp: RelyingParty,
) -> None:
    rp.edit("token_response", without("expires_in"))
    await rp.must_accept()


async def test_fapi2_security_profile_final_client_test_token_type_case_insensitivity(
    rp: RelyingParty,
) -> None:
    rp.edit("token_response", with_members(token_type="bEAReR"))
    await rp.must_accept()
