"""RP-Initiated Logout RP, code flow."""

import httpx
import pytest

from fastapi_oidc.events import EventName
from fastapi_oidc.testing import SignedOut
from tests.oidc.conformance.relying_party import RelyingParty, relying_party
from tests.oidc.world import BASE_URL


@pytest.fixture
async def rp() -> RelyingParty:
    rp = relying_party()
    await rp.must_accept()
    return rp


async def must_log_out(rp: RelyingParty, state: str | None, returned: EventName) -> None:
    """The provider was asked to sign out, and the browser came back to a working page.

    The provider returns the `state` with this suffix, or none.
    """
    begun = await rp.browser.post("/auth/logout", follow_redirects=False)
    url = httpx.URL(begun.headers["location"])
    sent = url.params["state"]
    params = url.params.remove("state") if state is None else url.params.set("state", sent + state)
    answer = await rp.browser.get(url.copy_with(params=params))
    assert (answer.status_code, str(answer.url)) == (200, f"{BASE_URL}/")
    assert len(rp.world.op.record.of(SignedOut)) == 1
    rp.must_have_erred_never()
    assert rp.world.events[-1].name is returned
    assert not await rp.is_signed_in()


async def test_oidcc_client_test_rp_init_logout(rp: RelyingParty) -> None:
    await must_log_out(rp, "", EventName.LOGOUT_RETURNED)


async def test_oidcc_client_test_rp_init_logout_other_state(rp: RelyingParty) -> None:
    await must_log_out(rp, "_INVALID", EventName.LOGOUT_RETURN_REFUSED)


async def test_oidcc_client_test_rp_init_logout_no_state(rp: RelyingParty) -> None:
    await must_log_out(rp, None, EventName.LOGOUT_RETURN_REFUSED)
