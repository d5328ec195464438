"""Refresh token modules: the access token has expired when the next request comes."""

from __future__ import annotations

import pytest

from fastapi_oidc import Code
from tests.oidc.conformance.relying_party import RelyingParty, relying_party
from tests.oidc.conformance.suite_messages import with_suffix


@pytest.fixture
async def rp() -> RelyingParty:
    rp = relying_party()
    await rp.must_accept()
    rp.time.advance(300)
    return rp


async def test_oidcc_client_test_refresh_token(rp: RelyingParty) -> None:
    first = rp.op.access_token
    assert await rp.is_signed_in()
    assert rp.op.userinfo_tokens == [first, rp.op.access_token]
    assert rp.op.access_token != first
    assert rp.op.faults == []


async def test_oidcc_client_test_refresh_token_invalid_issuer(rp: RelyingParty) -> None:
    rp.op.edits["refreshed_id_token"] = with_suffix("iss", "1")
    await must_end(rp, Code.ID_TOKEN_ISSUER)


async def test_oidcc_client_test_refresh_token_invalid_sub(rp: RelyingParty) -> None:
    rp.op.edits["refreshed_id_token"] = with_suffix("sub", "1")
    await must_end(rp, Code.ID_TOKEN_SUBJECT)


async def test_further_refresh_without_expires_in() -> None:
    """RFC 6749 5.1: the lifetime may be left out, as the suite does."""
    rp = relying_party()
    rp.op.expires_in = None
    await rp.must_accept()
    first = rp.op.access_token
    rp.time.advance(3500)
    assert await rp.is_signed_in()
    assert rp.op.access_token == first
    rp.time.advance(100)
    assert await rp.is_signed_in()
    assert rp.op.access_token != first
    assert rp.op.faults == []


async def must_end(rp: RelyingParty, code: Code) -> None:
    """The session is over, and UserInfo was not asked after the first login."""
    assert not await rp.is_signed_in()
    assert code in [event.code for event in rp.events]
    assert len(rp.op.userinfo_tokens) == 1
    assert not await rp.is_signed_in()
    assert rp.op.faults == []
