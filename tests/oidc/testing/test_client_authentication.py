import base64
from dataclasses import replace
from typing import Any
from urllib.parse import quote_plus

import httpx
import pytest

from fastapi_oidc.testing import DevClient
from tests.oidc.protocol.examples import changes, each
from tests.oidc.protocol.jose.keypairs import private_pem, public_pem
from tests.oidc.testing import assertions
from tests.oidc.testing.bare_client import APP, NO_HEADER, SECRET, BareClient, bare_client, basic

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

    async def test_the_token_endpoint_is_an_audience_too(self) -> None:
        rp = bare_client(SECRET_JWT)
        jwt = assertions.signed(assertions.claims(rp, aud="https://op.test/token"))
        answer = await rp.exchange(await rp.code(), **assertions.form(jwt))
        assert answer.status_code == 200

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

    async def test_another_assertion_type_is_refused(self) -> None:
        rp = bare_client(SECRET_JWT)
        form = await credentials(rp, SECRET_JWT) | {"client_assertion_type": "saml2-bearer"}
        refused = await rp.exchange(await rp.code(), **form)
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request")
