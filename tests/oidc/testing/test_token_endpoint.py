from dataclasses import replace

import httpx
import pytest

from fastapi_oidc.testing import TokenRevoked, TokensIssued
from tests.oidc.testing.bare_client import APP, BareClient, bare_client, basic, jwt_parts, returned


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"code": "unknown"}, "invalid_grant"),
        ({"code": ""}, "invalid_request"),
        ({"redirect_uri": "https://app.test/other"}, "invalid_grant"),
        ({"redirect_uri": ""}, "invalid_request"),
        ({"code_verifier": "w" * 64}, "invalid_grant"),
        ({"code_verifier": ""}, "invalid_request"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"grant_type": ""}, "invalid_request"),
    ],
)
async def test_a_wrong_one_is_refused(rp: BareClient, change: dict[str, str], error: str) -> None:
    answer = await rp.exchange(**{"code": await rp.code(), **change})
    assert (answer.status_code, answer.json()["error"]) == (400, error)
    assert answer.headers["cache-control"] == "no-store"
    assert rp.provider.record.of(TokensIssued) == []


async def test_a_code_lives_one_minute(rp: BareClient) -> None:
    code = await rp.code()
    rp.time.now += 60
    assert (await rp.exchange(code)).json()["error"] == "invalid_grant"


async def test_codes_and_tokens_are_worthless_to_another_client() -> None:
    rp = bare_client(APP, replace(APP, client_id="other", client_secret="another secret"))
    tokens, code = await rp.tokens(), await rp.code()
    request_uri = (await push(rp)).json()["request_uri"]
    rp.authorization = basic("other", "another secret")
    revoked = await rp.post("/revoke", {"token": tokens["refresh_token"]})
    for refused in (revoked, await rp.exchange(code), await rp.refresh(tokens["refresh_token"])):
        assert refused.json()["error"] == "invalid_grant"
    assert (await visit(rp, request_uri, client_id="other")).status_code == 400
    assert (await rp.userinfo(tokens["access_token"])).status_code == 200


async def test_the_body_must_be_a_form(rp: BareClient) -> None:
    answer = await rp.http.post("/token", json={"grant_type": "authorization_code"})
    assert answer.json()["error"] == "invalid_request"


class TestRefresh:
    async def test_it_lives_two_weeks(self, rp: BareClient) -> None:
        tokens = await rp.tokens()
        rp.time.now += 14 * 24 * 3600
        assert (await rp.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant"

    @pytest.mark.parametrize(
        ("scope", "status"), [("openid", 200), ("openid profile", 200), ("openid admin", 400)]
    )
    async def test_the_scope_can_only_shrink(self, rp: BareClient, scope: str, status: int) -> None:
        tokens = await rp.tokens()
        answer = await rp.refresh(tokens["refresh_token"], scope=scope)
        assert answer.status_code == status

    async def test_a_client_without_refresh_tokens_gets_none(self) -> None:
        rp = bare_client(replace(APP, issue_refresh_tokens=False))
        assert "refresh_token" not in await rp.tokens()


async def push(rp: BareClient, **changes: str) -> httpx.Response:
    return await rp.post("/par", rp.parameters(**changes))


async def visit(rp: BareClient, request_uri: str, *, client_id: str = "app") -> httpx.Response:
    parameters = {"client_id": client_id, "request_uri": request_uri}
    return await rp.http.get("/authorize", params=parameters)


@pytest.mark.parametrize("end", ["its use", "a minute"])
async def test_it_is_used_once_within_a_minute(rp: BareClient, end: str) -> None:
    request_uri = (await push(rp)).json()["request_uri"]
    if end == "its use":
        await visit(rp, request_uri)
    rp.time.now += 60 if end == "a minute" else 0
    assert (await visit(rp, request_uri)).status_code == 400


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
async def test_a_pushed_one_is_checked(rp: BareClient, change: dict[str, str], error: str) -> None:
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


@pytest.mark.parametrize("token", ["unknown", ""])
async def test_a_wrong_token_is_unauthorized(rp: BareClient, token: str) -> None:
    answer = await rp.userinfo(token)
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_token")
    assert answer.headers["www-authenticate"] == 'Bearer error="invalid_token"'


async def test_a_token_comes_once_in_the_header_or_the_form(rp: BareClient) -> None:
    form = {"access_token": (await rp.tokens())["access_token"]}
    assert (await rp.http.post("/userinfo", data=form)).json()["sub"] == "alice"
    bearer = {"Authorization": f"Bearer {form['access_token']}"}
    for refused in (
        await rp.http.get("/userinfo", params=form),
        await rp.http.post("/userinfo", data=form, headers=bearer),
    ):
        assert refused.json()["error"] == "invalid_request"
