"""Back-Channel Logout RP, code flow: the logout token arrives inside the RP's own logout.

A second browser, signed in by the same end user, shows whether the logout token took effect.
"""

from dataclasses import dataclass

import httpx
import pytest

from fastapi_oidc import Code
from tests.oidc.conformance.relying_party import (
    Members,
    Refusals,
    RelyingParty,
    relying_party,
    with_members,
    with_suffix,
    without,
)
from tests.oidc.web.asking import Noting

PLAN = "oidcc-client-test-rp-backchannel-rpinitlogout"
OTHER_EVENT: Members = {"http://schemas.openid.net/event/foobar": {}}
REFUSED: Refusals = {
    f"{PLAN}-no-event": (without("events"), Code.LOGOUT_TOKEN_EVENTS),
    f"{PLAN}-with-nonce": (with_members(nonce="nonce-1"), Code.LOGOUT_TOKEN_NONCE),
    f"{PLAN}-wrong-aud": (with_suffix("aud", "INVALID"), Code.LOGOUT_TOKEN_AUDIENCE),
    f"{PLAN}-wrong-event": (with_members(events=OTHER_EVENT), Code.LOGOUT_TOKEN_EVENTS),
    f"{PLAN}-wrong-iss": (with_members(iss="https://other.test/"), Code.LOGOUT_TOKEN_ISSUER),
}
SIGNED_OTHERWISE = {f"{PLAN}-alg-none": "none", f"{PLAN}-wrong-alg": "ES256"}


@dataclass
class TwoBrowsers:
    """A Relying Party in which one end user is signed in twice."""

    rp: RelyingParty
    other: httpx.AsyncClient

    async def must_revoke(self) -> None:
        """The answer is exactly 200, and the other session is over too."""
        answer = await self._log_out()
        assert (answer.status_code, answer.content) == (200, b"")
        assert not await self.rp.is_signed_in(self.other)

    async def must_refuse(self, code: Code) -> None:
        """The answer is 400, and the other session goes on."""
        answer = await self._log_out()
        assert answer.status_code == 400
        assert answer.json() == {"error": "invalid_request", "error_description": code}
        assert await self.rp.is_signed_in(self.other)

    async def _log_out(self) -> httpx.Response:
        transport = Noting(self.rp.world.app)
        self.rp.world.op.back_channel_transport = transport
        assert (await self.rp.log_out()).status_code == 200
        assert not await self.rp.is_signed_in()
        self.rp.must_have_erred_never()
        assert "no-store" in transport.answer.headers["cache-control"]
        return transport.answer


@pytest.fixture
async def browsers() -> TwoBrowsers:
    rp = relying_party()
    assert (await rp.sign_in()).status_code == 200
    other = rp.same_user_elsewhere()
    assert (await rp.sign_in(other)).status_code == 200
    return TwoBrowsers(rp, other)


async def test_oidcc_client_test_rp_backchannel_rpinitlogout(browsers: TwoBrowsers) -> None:
    browsers.rp.edit("logout_token", with_members(ignored_claim="ignored"))
    await browsers.must_revoke()


@pytest.mark.parametrize("module", REFUSED)
async def test_a_logout_token_is_refused(browsers: TwoBrowsers, module: str) -> None:
    edit, code = REFUSED[module]
    browsers.rp.edit("logout_token", edit)
    await browsers.must_refuse(code)


@pytest.mark.parametrize("module", SIGNED_OTHERWISE)
async def test_a_signature_is_refused(browsers: TwoBrowsers, module: str) -> None:
    browsers.rp.edit("logout_token_header", with_members(alg=SIGNED_OTHERWISE[module]))
    await browsers.must_refuse(Code.JWS_ALGORITHM)
