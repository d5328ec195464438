"""The modules of the comprehensive plan, beyond those that certify, which a code flow can meet."""

import pytest

from fastapi_oidc import Code, HTTPOptions
from tests.oidc.conformance.relying_party import (
    TRAPS,
    Members,
    RelyingParty,
    relying_party,
    with_members,
    without,
)
from tests.oidc.conformance.test_basic import with_damaged_signature
from tests.oidc.protocol.jose.keypairs import hs


@pytest.fixture
def rp() -> RelyingParty:
    return relying_party()


async def test_oidcc_client_test_missing_aud(rp: RelyingParty) -> None:
    rp.edit("id_token", without("aud"))
    await rp.must_refuse(Code.ID_TOKEN_AUDIENCE)


async def test_oidcc_client_test_userinfo_bearer_header(rp: RelyingParty) -> None:
    await rp.must_accept()


async def test_oidcc_client_test_userinfo_signed() -> None:
    await relying_party(client={"userinfo_signed_response_alg": "RS256"}).must_accept()


async def test_oidcc_client_test_invalid_sig_hs256() -> None:
    rp = relying_party(signs="HS256")
    rp.sign_id_tokens({"alg": "HS256"}, hs("another secret of more than 32 bytes"))
    await rp.must_refuse(Code.JWS_SIGNATURE)


async def test_oidcc_client_test_invalid_sig_es256() -> None:
    rp = relying_party(signs="ES256")
    rp.edit("token_response", with_damaged_signature)
    await rp.must_refuse(Code.JWS_SIGNATURE)


async def test_oidcc_client_test_aggregated_claims(rp: RelyingParty) -> None:
    source: Members = {"JWT": "e30.eyJhZGRyZXNzIjogIjEgTWFpbiBTdHJlZXQifQ.c2ln"}
    names: Members = {"address": "src1"}
    rp.edit("userinfo", with_members(_claim_names=names, _claim_sources={"src1": source}))
    await rp.must_accept()


async def test_oidcc_client_test_distributed_claims(rp: RelyingParty) -> None:
    """Nothing is fetched from an address that a claim names."""
    source: Members = {"endpoint": "https://evil.test/claims", "access_token": "token-1"}
    names: Members = {"credit_score": "src1"}
    rp.edit("userinfo", with_members(_claim_names=names, _claim_sources={"src1": source}))
    await rp.must_accept()
    assert rp.paths[-1] == "/userinfo"


async def test_oidcc_client_test_mtls_endpoint_aliases() -> None:
    """RFC 8705 5: a client with a certificate asks the aliases."""
    rp = relying_party(http=HTTPOptions(mutual_tls=True))
    issuer = rp.world.op.issuer
    aliases: Members = {
        f"{name}_endpoint": f"{issuer}/mtls/{name}" for name in ("token", "userinfo")
    }
    rp.edit("metadata", with_members(**TRAPS, mtls_endpoint_aliases=aliases))
    await rp.must_accept()
    assert [path for path in rp.paths if "mtls" in path] == ["/mtls/token", "/mtls/userinfo"]


async def test_oidcc_client_test_form_post_error() -> None:
    rp = relying_party(settings={"response_mode": "form_post", "max_age": 0})
    rp.edit(
        "authorization_response",
        lambda response: {
            "error": "login_required",
            "error_description": "<b>Not signed in</b>",
            "state": response["state"],
            "iss": response["iss"],
        },
    )
    answer = await rp.sign_in()
    assert answer.json()["code"] == Code.AUTHORIZATION_REFUSED
    assert "<b>" not in answer.text
    assert "/token" not in rp.paths


async def test_oidcc_client_test_3rd_party_init_login(rp: RelyingParty) -> None:
    """With the login route registered as `initiate_login_uri` (Core 4)."""
    query = {"iss": rp.world.op.issuer, "login_hint": "alice", "return_to": "/me"}
    answer = await rp.browser.get("/auth/login", params=query)
    assert answer.json()["sub"] == "alice"
