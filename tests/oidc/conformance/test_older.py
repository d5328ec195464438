"""Tests of the former OpenID suite (oidctest) that have no module of their own any more."""

from __future__ import annotations

import json

from tests.oidc.conformance.relying_party import relying_party


async def test_rp_id_token_sig_es256() -> None:
    await relying_party(id_token_signed_response_alg="ES256").must_accept()


async def test_rp_id_token_sig_hs256() -> None:
    await relying_party(id_token_signed_response_alg="HS256").must_accept()


async def test_rp_claims_request_id_token() -> None:
    await must_request_claims("id_token")


async def test_rp_claims_request_userinfo() -> None:
    await must_request_claims("userinfo")


async def must_request_claims(destination: str) -> None:
    """The `claims` parameter is an extra parameter like any other (Core 5.5)."""
    claims = json.dumps({destination: {"name": {"essential": True}}})
    rp = relying_party(extra_params={"claims": claims})
    await rp.must_accept()
    assert rp.op.last_request["claims"] == claims


async def test_rp_token_endpoint_client_secret_post() -> None:
    await relying_party(token_endpoint_auth_method="client_secret_post").must_accept()


async def test_rp_token_endpoint_client_secret_jwt() -> None:
    await relying_party(token_endpoint_auth_method="client_secret_jwt").must_accept()


async def test_rp_token_endpoint_private_key_jwt() -> None:
    rp = relying_party(token_endpoint_auth_method="private_key_jwt")
    await rp.must_accept()
    rp.op.userinfo_tokens.clear()
    await rp.must_accept()
