"""Faults that no module of the suite is about; the names are ours."""

from __future__ import annotations

import pytest

from fastapi_oidc import Code
from tests.oidc.conformance.relying_party import (
    TRAPS,
    RelyingParty,
    relying_party,
    with_keys,
    with_members,
    with_method,
    without,
)


@pytest.fixture
def rp() -> RelyingParty:
    return relying_party()


async def test_further_response_with_wrong_issuer_not_promised(rp: RelyingParty) -> None:
    promise = {"authorization_response_iss_parameter_supported": False}
    rp.edit("metadata", with_members(**TRAPS, **promise))
    rp.edit("authorization_response", with_members(iss="https://other.test/"))
    await rp.must_refuse(Code.AUTHORIZATION_ISSUER_MISMATCH)
    assert "/token" not in rp.paths


async def test_further_id_token_with_invalid_at_hash(rp: RelyingParty) -> None:
    rp.edit("id_token", with_members(at_hash="77QmUPtjPfzWtF2AnpK9RQ"))
    await rp.must_refuse(Code.ID_TOKEN_ACCESS_TOKEN_HASH)


async def test_further_token_response_with_expires_in(rp: RelyingParty) -> None:
    rp.edit("token_response", with_members(expires_in=300))
    await rp.must_accept()


async def test_further_token_type_dpop(rp: RelyingParty) -> None:
    rp.edit("token_response", with_members(token_type="DPoP"))
    await rp.must_refuse(Code.TOKEN_TYPE)


async def test_further_signing_key_rotation_without_kid(rp: RelyingParty) -> None:
    rp.edit("id_token_header", without("kid"))
    rp.edit("jwks", with_keys(named=False))
    await rp.must_accept()
    rp.world.op.rotate_keys()
    await rp.must_accept()


async def test_further_public_client() -> None:
    await with_method("none").must_accept()
