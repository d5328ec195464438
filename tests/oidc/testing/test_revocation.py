from dataclasses import replace

from fastapi_oidc.testing import TokenRevoked
from tests.oidc.testing.bare_client import APP, BareClient, bare_client, basic


async def test_revoking_the_refresh_token_ends_the_grant(rp: BareClient) -> None:
    tokens = await rp.tokens()
    form = {"token": tokens["refresh_token"], "token_type_hint": "refresh_token"}
    assert (await rp.post("/revoke", form)).status_code == 200
    assert (await rp.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant"
    assert (await rp.userinfo(tokens["access_token"])).status_code == 401
    assert rp.provider.record.of(TokenRevoked) == [TokenRevoked("app", "refresh_token")]


async def test_revoking_an_access_token_ends_only_that(rp: BareClient) -> None:
    tokens = await rp.tokens()
    await rp.post("/revoke", {"token": tokens["access_token"]})
    assert (await rp.userinfo(tokens["access_token"])).status_code == 401
    assert (await rp.refresh(tokens["refresh_token"])).status_code == 200


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
