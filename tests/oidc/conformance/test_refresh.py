"""Refresh token modules: the access token has expired when the next request comes.

Each is played as the suite plays it, whose token answers never say `expires_in`, and with one.
"""

import pytest

from fastapi_oidc import Code
from fastapi_oidc.testing import TokensIssued, UserInfoServed
from tests.oidc.conformance.relying_party import (
    Refusals,
    RelyingParty,
    relying_party,
    with_suffix,
    without,
)

DEFAULT_ACCESS_TOKEN_LIFETIME = 3600
ENDED: Refusals = {
    "oidcc-client-test-refresh-token-invalid-issuer": (
        with_suffix("iss", "1"),
        Code.ID_TOKEN_ISSUER,
    ),
    "oidcc-client-test-refresh-token-invalid-sub": (with_suffix("sub", "1"), Code.ID_TOKEN_SUBJECT),
}


@pytest.fixture(params=[["expires_in"], []], ids=["without-expires-in", "with-expires-in"])
async def left_out(request: pytest.FixtureRequest) -> list[str]:
    """What token responses lack."""
    names: list[str] = request.param
    return names


@pytest.fixture
async def rp(left_out: list[str]) -> RelyingParty:
    rp = relying_party()
    rp.edit("token_response", without(*left_out))
    await rp.must_accept()
    rp.world.time.advance(DEFAULT_ACCESS_TOKEN_LIFETIME if left_out else 300)
    return rp


def tokens(rp: RelyingParty) -> int:
    """How often the provider has issued tokens."""
    return len(rp.world.op.record.of(TokensIssued))


async def test_oidcc_client_test_refresh_token(rp: RelyingParty) -> None:
    assert await rp.is_signed_in()
    assert tokens(rp) == len(rp.world.op.record.of(UserInfoServed)) == 2
    rp.must_have_erred_never()


@pytest.mark.parametrize("module", ENDED)
async def test_a_refreshed_id_token_ends_the_session(rp: RelyingParty, module: str) -> None:
    edit, code = ENDED[module]
    rp.edit("id_token", edit)
    await must_end(rp, code)


async def test_further_refresh_without_id_token(rp: RelyingParty, left_out: list[str]) -> None:
    """Core 12.2: the answer might have no ID token; the claims of the login stay."""
    rp.edit("token_response", without(*left_out, "id_token"))
    assert await rp.is_signed_in()
    assert tokens(rp) == 2
    rp.must_have_erred_never()


async def must_end(rp: RelyingParty, code: Code) -> None:
    """The session is over, and UserInfo was not asked after the first login."""
    assert not await rp.is_signed_in()
    assert code in [event.code for event in rp.world.events]
    assert len(rp.world.op.record.of(UserInfoServed)) == 1
    assert not await rp.is_signed_in()
    rp.must_have_erred_never()
