"""Tests of the former OpenID suite (oidctest) that have no module of their own any more."""

import json

from fastapi_oidc.testing import AuthorizationRequested
from tests.oidc.conformance.relying_party import relying_party, with_method


async def test_rp_id_token_sig_es256() -> None:
    await relying_party(signs="ES256").must_accept()


async def test_rp_id_token_sig_hs256() -> None:
    await relying_party(signs="HS256").must_accept()


async def test_rp_claims_request_id_token() -> None:
    await must_request_claims("id_token")


async def test_rp_claims_request_userinfo() -> None:
    await must_request_claims("userinfo")


async def must_request_claims(destination: str) -> None:
    """The `claims` parameter is an extra parameter like any other (Core 5.5)."""
    claims = json.dumps({destination: {"name": {"essential": True}}})
    rp = relying_party(settings={"extra_params": {"claims": claims}})
    await rp.must_accept()
    [request] = rp.world.op.record.of(AuthorizationRequested)
    assert request.parameters["claims"] == claims


async def test_rp_token_endpoint_client_secret_post() -> None:
    await with_method("client_secret_post").must_accept()


async def test_rp_token_endpoint_client_secret_jwt() -> None:
    await with_method("client_secret_jwt").must_accept()


async def test_rp_token_endpoint_private_key_jwt() -> None:
    rp = with_method("private_key_jwt")
    await rp.must_accept()
    await rp.must_accept()
