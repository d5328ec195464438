"""Front-Channel Logout RP, code flow: the provider's page loads a frame, without the RP's cookies.

A second browser, signed in by the same end user, shows whether the frame took effect.
"""

from __future__ import annotations

import httpx
import pytest

from tests.oidc.conformance.relying_party import BASE_URL, RelyingParty, relying_party
from tests.oidc.conformance.suite_op import ISSUER, SID


@pytest.fixture
async def rp() -> RelyingParty:
    rp = relying_party(front_channel_logout=True)
    await rp.must_accept()
    return rp


async def frame(rp: RelyingParty) -> httpx.Response:
    """What a browser shows in the frame; it sends no cookies to another site."""
    return await rp.new_browser().get(
        f"{BASE_URL}/auth/frontchannel-logout",
        params={"iss": ISSUER, "sid": SID},
        headers={"sec-fetch-dest": "iframe", "sec-fetch-site": "cross-site"},
    )


async def must_show(answer: httpx.Response) -> None:
    """200, and the browser may neither store it nor show it to another site."""
    assert (answer.status_code, answer.content) == (200, b"")
    assert "no-store" in answer.headers["cache-control"]
    assert "frame-ancestors https://suite.test" in answer.headers["content-security-policy"]


async def test_oidcc_client_test_rp_frontchannel_rpinitlogout(rp: RelyingParty) -> None:
    other = rp.new_browser()
    assert (await rp.sign_in(other)).status_code == 200
    assert (await rp.log_out()).status_code == 200
    await must_show(await frame(rp))
    assert not await rp.is_signed_in(other)


async def test_oidcc_client_test_rp_frontchannel_opinitlogout(rp: RelyingParty) -> None:
    await must_show(await frame(rp))
    assert not await rp.is_signed_in()
