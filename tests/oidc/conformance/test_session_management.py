"""Session Management RP: what the server gives the page that polls the provider's iframe."""

from __future__ import annotations

from tests.oidc.conformance.relying_party import BASE_URL, relying_party
from tests.oidc.conformance.suite_messages import with_members
from tests.oidc.conformance.suite_op import ISSUER


async def test_oidcc_client_test_session_management() -> None:
    rp = relying_party()
    rp.op.edits["metadata"] = with_members(check_session_iframe=f"{ISSUER}session")
    rp.op.edits["authorization_response"] = with_members(session_state="abc123.salt")
    await rp.must_accept()
    session = (await rp.browser.get("/auth/session")).json()
    config = (await rp.browser.get("/auth/session-management")).json()
    assert session["session_state"] == "abc123.salt"
    assert config["supported"]
    assert config["client_id"] == rp.op.client.client_id
    assert config["check_session_iframe"] == f"{ISSUER}session"
    assert config["redirect_origin"] == BASE_URL
