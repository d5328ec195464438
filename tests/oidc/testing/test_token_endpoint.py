import base64
from dataclasses import replace
from typing import Any
from urllib.parse import quote_plus

import httpx
import pytest

from fastapi_oidc.testing import DevClient, TokensIssued
from tests.oidc.protocol.examples import changes, each
from tests.oidc.protocol.jose.keypairs import private_pem, public_pem
from tests.oidc.testing import assertions
from tests.oidc.testing.bare_client import (
    APP,
    NO_HEADER,
    SECRET,
    BareClient,
    bare_client,
    basic,
    jwt_parts,
    returned,
)


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


async def test_a_code_lives_one_minute_and_a_refresh_token_two_weeks(rp: BareClient) -> None:
    tokens, code = await rp.tokens(), await rp.code()
    rp.time.now += 60
    assert (await rp.exchange(code)).json()["error"] == "invalid_grant"
    rp.time.now += 14 * 24 * 3600
    assert (await rp.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant"


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


@pytest.mark.parametrize(
    ("scope", "status"), [("openid", 200), ("openid profile", 200), ("openid admin", 400)]
)
async def test_the_scope_can_only_shrink(rp: BareClient, scope: str, status: int) -> None:
    answer = await rp.refresh((await rp.tokens())["refresh_token"], scope=scope)
    assert answer.status_code == status


async def test_a_client_without_refresh_tokens_gets_none() -> None:
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


AWKWARD_SECRET = "a:b%c+d e/ü€"

BASIC = APP
POST = replace(APP, token_endpoint_auth_method="client_secret_post")
PUBLIC = replace(APP, client_secret=None)
SECRET_JWT = replace(APP, token_endpoint_auth_method="client_secret_jwt")
RSA_JWT = replace(
    APP,
    client_secret=None,
    token_endpoint_auth_method="private_key_jwt",
    public_key=public_pem(assertions.RSA_KEY),
)
EC_JWT = replace(RSA_JWT, public_key=public_pem(assertions.EC_KEY))


async def credentials(rp: BareClient, client: DevClient) -> dict[str, str]:
    """The form parameters by which `client` authenticates."""
    match client.authentication_method:
        case "client_secret_post":
            return {"client_id": "app", "client_secret": SECRET}
        case "client_secret_jwt":
            return assertions.form(assertions.signed(assertions.claims(rp)))
        case "private_key_jwt":
            is_rsa = client is RSA_JWT
            key = assertions.RSA_KEY if is_rsa else assertions.EC_KEY
            pem, algorithm = private_pem(key), "RS256" if is_rsa else "ES256"
            jwt = assertions.signed(assertions.claims(rp), key=pem, algorithm=algorithm)
            return assertions.form(jwt)
        case "none":
            return {"client_id": "app"}
    return {}


@pytest.mark.parametrize("client", [BASIC, POST, PUBLIC, SECRET_JWT, RSA_JWT, EC_JWT])
async def test_the_registered_method_is_accepted(client: DevClient) -> None:
    rp = bare_client(client)
    answer = await rp.exchange(await rp.code(), **await credentials(rp, client))
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("registered", [BASIC, POST, PUBLIC, SECRET_JWT])
@pytest.mark.parametrize("used", [BASIC, POST, PUBLIC, SECRET_JWT])
async def test_any_other_method_is_refused(registered: DevClient, used: DevClient) -> None:
    if registered is used:
        return
    rp = bare_client(registered)
    rp.authorization = basic("app", SECRET) if used is BASIC else NO_HEADER
    refused = await rp.exchange(await rp.code(), **await credentials(rp, used))
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")


@pytest.mark.parametrize(
    ("client", "sent", "error"),
    [
        (BASIC, {"client_id": "app", "client_secret": SECRET}, "invalid_request"),
        (BASIC, {"client_id": "other"}, "invalid_client"),
        (POST, {"client_id": "app", "client_secret": "wrong"}, "invalid_client"),
    ],
    ids=["two methods", "another client", "a wrong secret"],
)
async def test_others_are_refused(client: DevClient, sent: dict[str, str], error: str) -> None:
    rp = bare_client(client)
    assert (await rp.exchange(await rp.code(), **sent)).json()["error"] == error


class TestBasic:
    async def token_request(self, rp: BareClient, authorization: str) -> httpx.Response:
        rp.authorization = NO_HEADER
        rp.http.headers["Authorization"] = authorization
        return await rp.exchange(await rp.code())

    async def test_both_halves_are_form_urlencoded(self) -> None:
        rp = bare_client(replace(APP, client_secret=AWKWARD_SECRET))
        joined = f"app:{quote_plus(AWKWARD_SECRET)}".encode()
        encoded = base64.b64encode(joined).decode()
        assert (await self.token_request(rp, f"Basic {encoded}")).status_code == 200

    @pytest.mark.parametrize(
        "authorization",
        [
            "Basic " + base64.b64encode(f"app:{AWKWARD_SECRET}".encode()).decode(),
            "Basic " + base64.b64encode(b"app").decode(),
            "Basic " + base64.b64encode(b"app:wrong").decode(),
            "Basic " + base64.b64encode(b"stranger:wrong").decode(),
            "Basic not/base64!",
            "Bearer token",
        ],
    )
    async def test_anything_else_is_invalid_client(self, authorization: str) -> None:
        rp = bare_client(replace(APP, client_secret=AWKWARD_SECRET))
        refused = await self.token_request(rp, authorization)
        assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
        assert refused.headers["www-authenticate"].startswith("Basic")


@pytest.mark.parametrize("path", ["/par", "/introspect", "/revoke"])
async def test_the_other_endpoints_of_clients_ask_for_it_too(rp: BareClient, path: str) -> None:
    rp.authorization = basic("app", "wrong")
    refused = await rp.post(path, rp.parameters(token="any"))
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")


WRONG_CLAIMS = {
    "client": [*changes("iss", "other", None), *changes("sub", "other", None)],
    "audience": changes("aud", "https://elsewhere.test", ["https://op.test"], None),
    "id": changes("jti", None, ""),
    "expiry": changes("exp", None, 1_800_000_000, 1_800_000_000 + 24 * 3600 + 1, "1800000060"),
    "moment": changes("iat", None, 1_800_000_061),
}


class TestAssertion:
    @pytest.mark.parametrize("change", each(WRONG_CLAIMS))
    async def test_one_wrong_claim_is_refused(self, change: Any) -> None:
        rp = bare_client(SECRET_JWT)
        jwt = assertions.signed(assertions.claims(rp, **change))
        refused = await rp.exchange(await rp.code(), **assertions.form(jwt))
        assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")

    @pytest.mark.parametrize("jwt", ["", "a.b.c", "of another secret", "of another key"])
    async def test_another_key_or_no_jwt_is_refused(self, jwt: str) -> None:
        rp = bare_client(EC_JWT if jwt == "of another key" else SECRET_JWT)
        if jwt == "of another secret":
            jwt = assertions.signed(assertions.claims(rp), key=SECRET + "x")
        elif jwt == "of another key":
            pem = private_pem(assertions.RSA_KEY)
            jwt = assertions.signed(assertions.claims(rp), key=pem, algorithm="RS256")
        refused = await rp.exchange(await rp.code(), **assertions.form(jwt))
        assert refused.json()["error"] == "invalid_client"

    async def test_it_works_once(self) -> None:
        rp = bare_client(SECRET_JWT)
        form = await credentials(rp, SECRET_JWT)
        assert (await rp.exchange(await rp.code(), **form)).status_code == 200
        refused = await rp.exchange(await rp.code(), **form)
        assert refused.json()["error"] == "invalid_client"
