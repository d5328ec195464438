"""RP-Initiated Logout RP, code flow."""

from __future__ import annotations

import pytest

from fastapi_oidc.events import EventName
from tests.oidc.conformance.relying_party import BASE_URL, RelyingParty, relying_party
from tests.oidc.conformance.suite_messages import with_suffix, without


@pytest.fixture
async def rp() -> RelyingParty:
    rp = relying_party()
    await rp.must_accept()
    return rp


async def must_log_out(rp: RelyingParty, returned: EventName) -> None:
    """The provider was asked to sign out, and the browser came back to a working page."""
    answer = await rp.log_out()
    assert (answer.status_code, str(answer.url)) == (200, f"{BASE_URL}/")
    assert rp.op.calls[-1] == "end_session"
    assert rp.op.faults == []
    assert rp.events[-1].name is returned
    assert not await rp.is_signed_in()


async def test_oidcc_client_test_rp_init_logout(rp: RelyingParty) -> None:
    await must_log_out(rp, EventName.LOGOUT_RETURNED)


async def test_oidcc_client_test_rp_init_logout_other_state(rp: RelyingParty) -> None:
    rp.op.edits["logout_return"] = with_suffix("state", "_INVALID")
    await must_log_out(rp, EventName.LOGOUT_RETURN_REFUSED)


async def test_oidcc_client_test_rp_init_logout_no_state(rp: RelyingParty) -> None:
    rp.op.edits["logout_return"] = without("state")
    await must_log_out(rp, EventName.LOGOUT_RETURN_REFUSED)
