from dataclasses import replace

import pytest

from tests.oidc.testing.bare_client import APP, BareClient, bare_client, jwt_parts


async def test_a_smaller_scope_gives_less(rp: BareClient) -> None:
    answer = await rp.userinfo((await rp.tokens(scope="openid"))["access_token"])
    assert answer.json() == {"sub": "alice", "roles": ["admin"]}


async def test_it_can_be_a_signed_jwt() -> None:
    rp = bare_client(replace(APP, userinfo_signed_response_alg="ES256"))
    answer = await rp.userinfo((await rp.tokens())["access_token"])
    assert answer.headers["content-type"] == "application/jwt"
    header, claims = jwt_parts(answer.text)
    assert header["alg"] == "ES256"
    assert (claims["iss"], claims["aud"]) == (rp.provider.issuer, "app")
    assert claims["sub"] == "alice"


async def test_the_token_may_be_posted(rp: BareClient) -> None:
    form = {"access_token": (await rp.tokens())["access_token"]}
    assert (await rp.http.post("/userinfo", data=form)).json()["sub"] == "alice"


@pytest.mark.parametrize("token", ["unknown", ""])
async def test_a_wrong_token_is_unauthorized(rp: BareClient, token: str) -> None:
    answer = await rp.userinfo(token)
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_token")
    assert answer.headers["www-authenticate"] == 'Bearer error="invalid_token"'


async def test_a_token_in_the_query_is_refused(rp: BareClient) -> None:
    token = (await rp.tokens())["access_token"]
    answer = await rp.http.get("/userinfo", params={"access_token": token})
    assert answer.json()["error"] == "invalid_request"


async def test_a_token_given_twice_is_refused(rp: BareClient) -> None:
    token = (await rp.tokens())["access_token"]
    bearer = {"Authorization": f"Bearer {token}"}
    answer = await rp.http.post("/userinfo", data={"access_token": token}, headers=bearer)
    assert answer.json()["error"] == "invalid_request"
