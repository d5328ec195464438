"""Front-Channel Logout RP, code flow: the provider's page loads a frame, without the RP's cookies.

A second browser, signed in by the same end user, shows whether the frame took effect.
"""

import pytest

from fastapi_oidc.testing import SignedIn
from tests.oidc.conformance.relying_party import RelyingParty, relying_party


@pytest.fixture
async def rp() -> RelyingParty:
    rp = relying_party(settings={"front_channel_logout": True})
    await rp.must_accept()
    return rp


async def must_show_the_frame(rp: RelyingParty) -> None:
    """200, and the browser, which sends no cookies, may neither store it nor show it elsewhere."""
    signed_in = rp.world.op.record.of(SignedIn)[-1]
    answer = await rp.world.browser().get(
        "/auth/frontchannel-logout",
        params={"iss": rp.world.op.issuer, "sid": str(signed_in.sid)},
        headers={"sec-fetch-dest": "iframe", "sec-fetch-site": "cross-site"},
    )
    assert (answer.status_code, answer.content) == (200, b"")
    assert "no-store" in answer.headers["cache-control"]
    assert "frame-ancestors https://op.test" in answer.headers["content-security-policy"]


async def test_oidcc_client_test_rp_frontchannel_rpinitlogout(rp: RelyingParty) -> None:
    other = rp.same_user_elsewhere()
    assert (await rp.sign_in(other)).status_code == 200
    assert (await rp.log_out()).status_code == 200
    await must_show_the_frame(rp)
    assert not await rp.is_signed_in(other)


async def test_oidcc_client_test_rp_frontchannel_opinitlogout(rp: RelyingParty) -> None:
    await must_show_the_frame(rp)
    assert not await rp.is_signed_in()
