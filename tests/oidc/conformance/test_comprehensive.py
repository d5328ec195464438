"""The modules of the comprehensive plan, beyond those that certify, which a code flow can meet."""

from __future__ import annotations

import pytest

from fastapi_oidc import Code, HTTPOptions
from tests.oidc.conformance.relying_party import RelyingParty, relying_party
from tests.oidc.conformance.suite_keys import Members
from tests.oidc.conformance.suite_messages import without
from tests.oidc.conformance.suite_op import ISSUER, SUB
from tests.oidc.protocol.jose.keypairs import compact


@pytest.fixture
def rp() -> RelyingParty:
    return relying_party()


async def test_oidcc_client_test_missing_aud(rp: RelyingParty) -> None:
    rp.op.edits["id_token"] = without("aud")
    await rp.must_refuse(Code.ID_TOKEN_AUDIENCE)


async def test_oidcc_client_test_userinfo_bearer_header(rp: RelyingParty) -> None:
    await rp.must_accept()


async def test_oidcc_client_test_userinfo_signed(rp: RelyingParty) -> None:
    rp.op.signs_userinfo = True
    await rp.must_accept()


async def test_oidcc_client_test_invalid_sig_hs256() -> None:
    rp = relying_party(id_token_signed_response_alg="HS256")
    rp.op.keys.client_secret += "1"
    await rp.must_refuse(Code.JWS_SIGNATURE)


async def test_oidcc_client_test_invalid_sig_es256() -> None:
    rp = relying_party(id_token_signed_response_alg="ES256")
    kid = rp.op.keys.name("ec-P-256-1")
    rp.op.sign_id_token = lambda claims: compact(
        {"alg": "ES256", "kid": kid}, claims, lambda _message: bytes(64)
    )
    await rp.must_refuse(Code.JWS_SIGNATURE)


async def test_oidcc_client_test_aggregated_claims(rp: RelyingParty) -> None:
    source: Members = {"JWT": rp.op.keys.sign({"address": "1 Main Street"}, "RS256")}
    rp.op.edits["userinfo"] = lambda claims: {
        **claims,
        "_claim_names": {"address": "src1"},
        "_claim_sources": {"src1": source},
    }
    await rp.must_accept()


async def test_oidcc_client_test_distributed_claims(rp: RelyingParty) -> None:
    """Nothing is fetched from an address that a claim names."""
    source: Members = {"endpoint": "https://evil.test/claims", "access_token": "token-1"}
    rp.op.edits["userinfo"] = lambda claims: {
        **claims,
        "_claim_names": {"credit_score": "src1"},
        "_claim_sources": {"src1": source},
    }
    await rp.must_accept()
    assert rp.op.calls[-1] == "userinfo"


async def test_oidcc_client_test_mtls_endpoint_aliases() -> None:
    """RFC 8705 5: a client with a certificate asks the aliases."""
    rp = relying_party(http=HTTPOptions(mutual_tls=True))
    names = ("token", "userinfo")
    aliases: Members = {f"{name}_endpoint": f"{ISSUER}mtls/{name}" for name in names}
    rp.op.edits["metadata"] = lambda members: {**members, "mtls_endpoint_aliases": aliases}
    await rp.must_accept()
    assert rp.op.aliases == ["mtls/token", "mtls/userinfo"]


async def test_oidcc_client_test_form_post_error() -> None:
    rp = relying_party(response_mode="form_post", extra_params={"prompt": "none"}, max_age=0)
    rp.op.edits["authorization_response"] = lambda response: {
        "error": "login_required",
        "error_description": "<b>Not signed in</b>",
        "state": response["state"],
    }
    answer = await rp.sign_in()
    assert answer.json()["code"] == Code.AUTHORIZATION_REFUSED
    assert "<b>" not in answer.text
    assert "token" not in rp.op.calls


async def test_oidcc_client_test_3rd_party_init_login(rp: RelyingParty) -> None:
    """With the login route registered as `initiate_login_uri` (Core 4)."""
    query = {"iss": "https://suite.test/test/a/rp/", "return_to": "/me"}
    answer = await rp.browser.get("/auth/login", params=query)
    assert answer.json()["sub"] == SUB
