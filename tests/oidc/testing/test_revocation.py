from dataclasses import replace

from fastapi_oidc.testing import TokenRevoked
from tests.oidc.testing.bare_client import APP, BareClient, bare_client, basic


async def test_an_unknown_token_is_answered_200(rp: BareClient) -> None:
    assert (await rp.post("/revoke", {"token": "unknown"})).status_code == 200
    assert rp.provider.record.of(TokenRevoked) == []


async def test_a_token_of_another_client_stays() -> None:
    rp = bare_client(APP, replace(APP, client_id="other", client_secret="another secret"))
    tokens = await rp.tokens()
    rp.authorization = basic("other", "another secret")
    refused = await rp.post("/revoke", {"token": tokens["refresh_token"]})
    assert refused.json()["error"] == "invalid_grant"
    assert (await rp.userinfo(tokens["access_token"])).status_code == 200
