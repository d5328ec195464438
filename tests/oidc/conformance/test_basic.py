"""Basic RP and Form Post RP: the same modules, with the response in the query or in a form."""

from __future__ import annotations

import pytest

from fastapi_oidc import Code
from tests.oidc.conformance.relying_party import RelyingParty, relying_party
from tests.oidc.conformance.suite_messages import Refusals, with_suffix, without
from tests.oidc.conformance.suite_op import PROFILE

REFUSED: Refusals = {
    "oidcc-client-test-invalid-iss": (with_suffix("iss", "1"), Code.ID_TOKEN_ISSUER),
    "oidcc-client-test-missing-sub": (without("sub"), Code.ID_TOKEN_SUBJECT),
    "oidcc-client-test-invalid-aud": (with_suffix("aud", "1"), Code.ID_TOKEN_AUDIENCE),
    "oidcc-client-test-missing-iat": (without("iat"), Code.ID_TOKEN_ISSUED_AT),
    "oidcc-client-test-nonce-invalid": (with_suffix("nonce", "1"), Code.ID_TOKEN_NONCE),
}


@pytest.fixture(params=["query", "form_post"])
def rp(request: pytest.FixtureRequest) -> RelyingParty:
    return relying_party(response_mode=request.param)


async def test_oidcc_client_test(rp: RelyingParty) -> None:
    await rp.must_accept()
    assert rp.op.calls == ["metadata", "authorization", "token", "jwks", "userinfo"]


@pytest.mark.parametrize("module", REFUSED)
async def test_an_id_token_is_refused(rp: RelyingParty, module: str) -> None:
    rp.op.edits["id_token"], code = REFUSED[module]
    await rp.must_refuse(code)


async def test_oidcc_client_test_kid_absent_single_jwks(rp: RelyingParty) -> None:
    rp.op.keys.with_kid = rp.op.keys.several = False
    await rp.must_accept()


async def test_oidcc_client_test_kid_absent_multiple_jwks(rp: RelyingParty) -> None:
    rp.op.keys.with_kid = False
    await rp.must_accept()


async def test_oidcc_client_test_idtoken_sig_rs256(rp: RelyingParty) -> None:
    rp.op.sign_id_token = lambda claims: rp.op.keys.sign(claims, "RS256")
    await rp.must_accept()


async def test_oidcc_client_test_idtoken_sig_none(rp: RelyingParty) -> None:
    rp.op.sign_id_token = lambda claims: rp.op.keys.sign(claims, "none")
    await rp.must_refuse(Code.JWS_ALGORITHM)


async def test_oidcc_client_test_invalid_sig_rs256(rp: RelyingParty) -> None:
    rp.op.sign_id_token = lambda claims: damaged(rp.op.keys.sign(claims, "RS256"))
    await rp.must_refuse(Code.JWS_SIGNATURE)


async def test_oidcc_client_test_userinfo_invalid_sub(rp: RelyingParty) -> None:
    rp.op.edits["userinfo"] = with_suffix("sub", "invalid")
    answer = await rp.sign_in()
    assert answer.json()["code"] == Code.USERINFO_SUBJECT
    assert not await rp.is_signed_in()
    assert rp.op.faults == []


async def test_oidcc_client_test_scope_userinfo_claims(rp: RelyingParty) -> None:
    answer = await rp.sign_in()
    identity = answer.json()["identity"]
    assert {"openid", "profile", "email"} <= set(rp.op.last_request["scope"].split())
    assert {name: identity[name] for name in PROFILE} == PROFILE
    assert rp.op.faults == []


async def test_oidcc_client_test_client_secret_basic(rp: RelyingParty) -> None:
    assert rp.op.client.token_endpoint_auth_method == "client_secret_basic"
    await rp.must_accept()


def damaged(token: str) -> str:
    """`token` with the first octet of its signature changed."""
    signing_input, _, signature = token.rpartition(".")
    return f"{signing_input}.{'B' if signature[0] == 'A' else 'A'}{signature[1:]}"
