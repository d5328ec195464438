"""Session Management RP: what the server gives the page that polls the provider's iframe."""

from tests.oidc.conformance.relying_party import CLIENT_ID, relying_party, with_members
from tests.oidc.world import BASE_URL


async def test_oidcc_client_test_session_management() -> None:
    rp = relying_party()
    rp.edit("authorization_response", with_members(session_state="abc123.salt"))
    await rp.must_accept()
    session = (await rp.browser.get("/auth/session")).json()
    config = (await rp.browser.get("/auth/session-management")).json()
    assert session["session_state"] == "abc123.salt"
    assert config["supported"]
    assert config["client_id"] == CLIENT_ID
    assert config["check_session_iframe"] == f"{rp.world.op.issuer}/check-session"
    assert config["redirect_origin"] == BASE_URL
