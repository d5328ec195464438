"""Basic RP and Form Post RP: the same modules, with the response in the query or in a form."""

import pytest

from fastapi_oidc import Code
from fastapi_oidc.testing import AuthorizationRequested
from tests.oidc.conformance.relying_party import (
    METADATA,
    Members,
    Refusals,
    RelyingParty,
    relying_party,
    with_suffix,
    with_unnamed_keys,
    without,
)
from tests.oidc.protocol.jose.keypairs import public_jwk, rsa_key

REFUSED: Refusals = {
    "oidcc-client-test-invalid-iss": (with_suffix("iss", "1"), Code.ID_TOKEN_ISSUER),
    "oidcc-client-test-missing-sub": (without("sub"), Code.ID_TOKEN_SUBJECT),
    "oidcc-client-test-invalid-aud": (with_suffix("aud", "1"), Code.ID_TOKEN_AUDIENCE),
    "oidcc-client-test-missing-iat": (without("iat"), Code.ID_TOKEN_ISSUED_AT),
    "oidcc-client-test-nonce-invalid": (with_suffix("nonce", "1"), Code.ID_TOKEN_NONCE),
}


@pytest.fixture(params=["query", "form_post"])
def rp(request: pytest.FixtureRequest) -> RelyingParty:
    return relying_party(settings={"response_mode": request.param})


async def test_oidcc_client_test(rp: RelyingParty) -> None:
    await rp.must_accept()
    assert rp.paths == [METADATA, "/token", "/jwks", "/userinfo"]


@pytest.mark.parametrize("module", REFUSED)
async def test_an_id_token_is_refused(rp: RelyingParty, module: str) -> None:
    edit, code = REFUSED[module]
    rp.edit("id_token", edit)
    await rp.must_refuse(code)


async def test_oidcc_client_test_kid_absent_single_jwks(rp: RelyingParty) -> None:
    rp.edit("id_token_header", without("kid"))
    rp.edit("jwks", with_unnamed_keys())
    await rp.must_accept()


async def test_oidcc_client_test_kid_absent_multiple_jwks(rp: RelyingParty) -> None:
    rp.edit("id_token_header", without("kid"))
    rp.edit("jwks", with_unnamed_keys(public_jwk(rsa_key("another"), use="sig")))
    await rp.must_accept()


async def test_oidcc_client_test_idtoken_sig_rs256(rp: RelyingParty) -> None:
    rp.edit("id_token_header", without("typ"))
    await rp.must_accept()


async def test_oidcc_client_test_idtoken_sig_none(rp: RelyingParty) -> None:
    rp.sign_id_tokens({"alg": "none"}, lambda _message: b"")
    await rp.must_refuse(Code.JWS_ALGORITHM)


async def test_oidcc_client_test_invalid_sig_rs256(rp: RelyingParty) -> None:
    rp.edit("token_response", with_damaged_signature)
    await rp.must_refuse(Code.JWS_SIGNATURE)


async def test_oidcc_client_test_userinfo_invalid_sub(rp: RelyingParty) -> None:
    rp.edit("userinfo", with_suffix("sub", "invalid"))
    answer = await rp.sign_in()
    assert answer.json()["code"] == Code.USERINFO_SUBJECT
    assert not await rp.is_signed_in()
    rp.must_have_erred_never()


async def test_oidcc_client_test_scope_userinfo_claims(rp: RelyingParty) -> None:
    identity = (await rp.sign_in()).json()["identity"]
    [request] = rp.world.op.record.of(AuthorizationRequested)
    assert {"openid", "profile", "email"} <= set(request.parameters["scope"].split())
    assert (identity["name"], identity["email"]) == ("Alice", "alice@example.com")


async def test_oidcc_client_test_client_secret_basic(rp: RelyingParty) -> None:
    await rp.must_accept()


def with_damaged_signature(response: Members) -> Members:
    """The ID token with the first octet of its signature changed."""
    signing_input, _, signature = str(response["id_token"]).rpartition(".")
    damaged = f"{'B' if signature[0] == 'A' else 'A'}{signature[1:]}"
    return response | {"id_token": f"{signing_input}.{damaged}"}
