from dataclasses import replace

import httpx
import pytest

from fastapi_oidc.testing import TokenRevoked
from tests.oidc.testing.bare_client import APP, BareClient, bare_client, basic, jwt_parts, returned


async def push(rp: BareClient, **changes: str) -> httpx.Response:
    return await rp.post("/par", rp.parameters(**changes))


async def visit(rp: BareClient, request_uri: str, *, client_id: str = "app") -> httpx.Response:
    parameters = {"client_id": client_id, "request_uri": request_uri}
    return await rp.http.get("/authorize", params=parameters)


async def test_it_is_used_once(rp: BareClient) -> None:
    request_uri = (await push(rp)).json()["request_uri"]
    await visit(rp, request_uri)
    assert (await visit(rp, request_uri)).status_code == 400


async def test_it_lives_one_minute(rp: BareClient) -> None:
    request_uri = (await push(rp)).json()["request_uri"]
    rp.time.now += 60
    assert (await visit(rp, request_uri)).status_code == 400


async def test_it_belongs_to_its_client() -> None:
    rp = bare_client(APP, replace(APP, client_id="other"))
    request_uri = (await push(rp)).json()["request_uri"]
    assert (await visit(rp, request_uri, client_id="other")).status_code == 400


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"redirect_uri": "https://app.test/other"}, "invalid_request"),
        ({"scope": "profile"}, "invalid_scope"),
        ({"code_challenge": ""}, "invalid_request"),
        ({"request_uri": "urn:example:1"}, "invalid_request"),
        ({"client_id": "other"}, "invalid_client"),
    ],
)
async def test_it_is_checked_when_it_is_pushed(
    rp: BareClient, change: dict[str, str], error: str
) -> None:
    refused = await push(rp, **change)
    assert refused.json()["error"] == error


async def test_a_client_that_must_push_cannot_do_without() -> None:
    rp = bare_client(replace(APP, require_pushed_authorization_requests=True))
    assert (await rp.authorize()).status_code == 400
    request_uri = (await push(rp)).json()["request_uri"]
    assert "code" in returned(await visit(rp, request_uri))


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
