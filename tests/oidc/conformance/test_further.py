"""Faults that no module of the suite is about; the names are ours."""

from __future__ import annotations

import pytest

from fastapi_oidc import Code
from tests.oidc.conformance.relying_party import RelyingParty, relying_party
from tests.oidc.conformance.suite_messages import with_members


@pytest.fixture
def rp() -> RelyingParty:
    return relying_party()


async def test_further_response_with_wrong_issuer_not_promised(rp: RelyingParty) -> None:
    rp.op.edits["authorization_response"] = with_members(iss="https://other.test/")
    await rp.must_refuse(Code.AUTHORIZATION_ISSUER_MISMATCH)
    assert rp.op.calls[:2] == ["metadata", "authorization"]
    assert "token" not in rp.op.calls


async def test_further_id_token_with_invalid_at_hash(rp: RelyingParty) -> None:
    rp.op.edits["id_token"] = with_members(at_hash="77QmUPtjPfzWtF2AnpK9RQ")
    await rp.must_refuse(Code.ID_TOKEN_ACCESS_TOKEN_HASH)


async def test_further_token_response_with_expires_in(rp: RelyingParty) -> None:
    rp.op.expires_in = 300
    await rp.must_accept()


async def test_further_token_type_dpop(rp: RelyingParty) -> None:
    rp.op.edits["token_response"] = with_members(token_type="DPoP")
    await rp.must_refuse(Code.TOKEN_TYPE)


async def test_further_signing_key_rotation_without_kid(rp: RelyingParty) -> None:
    rp.op.keys.with_kid = False
    await rp.must_accept()
    rp.op.keys.rotate()
    rp.op.userinfo_tokens.clear()
    await rp.must_accept()


async def test_further_public_client() -> None:
    await relying_party(token_endpoint_auth_method="none").must_accept()
