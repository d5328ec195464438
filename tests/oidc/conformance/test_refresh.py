"""Refresh token modules: the access token has expired when the next request comes.

Each is played as the suite plays it, whose token answers never say `expires_in`, and with one.
"""

from __future__ import annotations

import pytest

from fastapi_oidc import Code
from tests.oidc.conformance.relying_party import RelyingParty, relying_party
from tests.oidc.conformance.suite_messages import Refusals, with_members, with_suffix, without

DEFAULT_ACCESS_TOKEN_LIFETIME = 3600
ENDED: Refusals = {
    "oidcc-client-test-refresh-token-invalid-issuer": (
        with_suffix("iss", "1"),
        Code.ID_TOKEN_ISSUER,
    ),
    "oidcc-client-test-refresh-token-invalid-sub": (with_suffix("sub", "1"), Code.ID_TOKEN_SUBJECT),
    # Core 12.2: another audience than at login.
    "further-refresh-token-invalid-aud": (with_suffix("aud", "1"), Code.ID_TOKEN_AUDIENCE),
}


@pytest.fixture(params=[None, 300], ids=["without-expires-in", "with-expires-in"])
async def rp(request: pytest.FixtureRequest) -> RelyingParty:
    rp = relying_party()
    rp.op.expires_in = request.param
    await rp.must_accept()
    rp.time.advance(request.param or DEFAULT_ACCESS_TOKEN_LIFETIME)
    return rp


async def test_oidcc_client_test_refresh_token(rp: RelyingParty) -> None:
    first = rp.op.access_token
    assert await rp.is_signed_in()
    assert rp.op.userinfo_tokens == [first, rp.op.access_token]
    assert rp.op.access_token != first
    assert rp.op.faults == []


@pytest.mark.parametrize("module", ENDED)
async def test_a_refreshed_id_token_ends_the_session(rp: RelyingParty, module: str) -> None:
    rp.op.edits["refreshed_id_token"], code = ENDED[module]
    await must_end(rp, code)


async def test_further_refresh_token_other_auth_time() -> None:
    """Core 12.2: another authentication than at login."""
    rp = relying_party()
    at_login = int(rp.time.now)
    rp.op.edits["id_token"] = with_members(auth_time=at_login)
    await rp.must_accept()
    rp.time.advance(DEFAULT_ACCESS_TOKEN_LIFETIME)
    rp.op.edits["refreshed_id_token"] = with_members(auth_time=at_login + 1)
    await must_end(rp, Code.ID_TOKEN_AUTH_TIME)


async def test_further_refresh_without_id_token(rp: RelyingParty) -> None:
    """Core 12.2: the answer might have no ID token; the claims of the login stay."""
    rp.op.edits["token_response"] = without("id_token")
    first = rp.op.access_token
    assert await rp.is_signed_in()
    assert rp.op.access_token != first
    assert rp.op.faults == []


async def test_further_refresh_without_expires_in() -> None:
    """RFC 6749 5.1: the lifetime may be left out; the default holds to its last seconds."""
    rp = relying_party()
    await rp.must_accept()
    first = rp.op.access_token
    rp.time.advance(DEFAULT_ACCESS_TOKEN_LIFETIME - 100)
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
