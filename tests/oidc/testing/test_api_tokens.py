"""Access tokens for APIs: their form, their audience, and the grants that give them."""

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import pytest

from fastapi_oidc.testing import DevResource, TokensIssued
from tests.oidc.testing.bare_client import APP, SECRET, BareClient, bare_client, basic, jwt_parts

MACHINES, CALENDAR = "https://machines.test", "https://calendar.test"
RESOURCES = (
    DevResource(MACHINES, ["machines:read", "machines:write"], client_id="api"),
    DevResource(CALENDAR, ["events:read"]),
)
JWT_APP = replace(APP, access_token_format="jwt")
API = replace(APP, client_id="api")
PUBLIC = replace(APP, client_id="spa", client_secret=None)

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ON_BEHALF_OF = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
JWT = "urn:ietf:params:oauth:token-type:jwt"


@pytest.fixture
def rp() -> BareClient:
    return bare_client(JWT_APP, API, PUBLIC, resources=RESOURCES)


class TestFormat:
    async def test_a_jwt_by_rfc_9068(self, rp: BareClient) -> None:
        token = (await rp.tokens())["access_token"]
        header, claims = jwt_parts(token)
        assert header["typ"] == "at+jwt"
        assert isinstance(claims.pop("jti"), str)
        assert claims == {
            "iss": rp.provider.issuer,
            "sub": "alice",
            "aud": rp.provider.issuer,
            "client_id": "app",
            "iat": 1_800_000_000,
            "exp": 1_800_000_300,
            "scope": "openid profile email",
            "auth_time": 1_800_000_000,
            "roles": ["admin"],
        }

    async def test_a_plain_one_as_keycloak_writes_it(self) -> None:
        rp = bare_client(replace(APP, access_token_format="plain_jwt", audience="account"))
        header, claims = jwt_parts((await rp.tokens())["access_token"])
        assert header["typ"] == "JWT"
        assert (claims["azp"], claims["typ"], claims["aud"]) == ("app", "Bearer", "account")
        assert claims["realm_access"] == {"roles": ["admin"]}
        assert not {"client_id", "roles"} & set(claims)

    async def test_a_client_of_hs256_gets_one_that_apis_can_verify(self) -> None:
        rp = bare_client(replace(JWT_APP, id_token_signed_response_alg="HS256"))
        header, _ = jwt_parts((await rp.tokens())["access_token"])
        assert header["alg"] == "RS256"


class TestResource:
    SCOPE = "openid machines:read events:read"

    async def audience(self, rp: BareClient, **form: str) -> tuple[object, object]:
        """`aud` and `scope` of what a refresh gives."""
        tokens = await rp.tokens(scope=self.SCOPE)
        refreshed = (await rp.refresh(tokens["refresh_token"], **form)).json()
        _, claims = jwt_parts(refreshed["access_token"])
        assert claims["scope"] == refreshed["scope"]
        return claims["aud"], claims["scope"]

    async def test_at_a_refresh(self, rp: BareClient) -> None:
        assert await self.audience(rp, resource=CALENDAR) == (CALENDAR, "openid events:read")
        assert await self.audience(rp, audience=MACHINES) == (MACHINES, "openid machines:read")
        assert await self.audience(rp) == (rp.provider.issuer, self.SCOPE)

    async def test_an_unknown_one_is_refused_everywhere(self, rp: BareClient) -> None:
        unknown = "https://unknown.test"
        for asked in ({"resource": unknown}, {"resource": CALENDAR, "audience": MACHINES}):
            assert (await rp.answer(**asked))["error"] == "invalid_target"
        answer = await rp.exchange(await rp.code(), resource=unknown)
        assert answer.json()["error"] == "invalid_target"
        refresh_token = (await rp.tokens(scope=self.SCOPE, resource=MACHINES))["refresh_token"]
        for resource in (unknown, CALENDAR):  # of which the second was not granted
            answer = await rp.refresh(refresh_token, resource=resource)
            assert answer.json()["error"] == "invalid_target"
        assert (await rp.refresh(refresh_token)).status_code == 200


class TestClientCredentials:
    FORM: ClassVar = {"grant_type": "client_credentials"}

    async def test_a_token_for_the_client_itself(self, rp: BareClient) -> None:
        answer = await rp.post("/token", {**self.FORM, "scope": "machines:read"})
        assert set(answer.json()) == {"access_token", "token_type", "expires_in", "scope"}
        _, claims = jwt_parts(answer.json()["access_token"])
        assert (claims["sub"], claims["client_id"]) == ("app", "app")
        assert (claims["aud"], claims["scope"]) == (MACHINES, "machines:read")
        assert not {"auth_time", "acr", "roles"} & set(claims)
        [issued] = rp.provider.record.of(TokensIssued)
        assert (issued.grant_type, issued.sub) == ("client_credentials", "app")

    async def test_without_a_scope_it_has_that_of_the_resource_and_is_no_user(
        self, rp: BareClient
    ) -> None:
        answer = await rp.post("/token", {**self.FORM, "resource": MACHINES})
        assert answer.json()["scope"] == "machines:read machines:write"
        answer = await rp.post("/token", self.FORM)
        assert answer.json()["scope"] == ""
        refused = await rp.userinfo(answer.json()["access_token"])
        assert refused.json()["error"] == "insufficient_scope"


def exchange(subject_token: str, **changes: str) -> dict[str, str]:
    valid = {
        "grant_type": EXCHANGE,
        "subject_token": subject_token,
        "subject_token_type": ACCESS_TOKEN,
        "audience": CALENDAR,
    }
    return {**valid, **changes}


async def test_an_exchange_gives_less_scope_at_the_same_api(rp: BareClient) -> None:
    token = (await rp.tokens())["access_token"]
    answer = await rp.post("/token", exchange(token, audience="", scope="openid"))
    _, claims = jwt_parts(answer.json()["access_token"])
    assert (claims["aud"], claims["scope"]) == (rp.provider.issuer, "openid")


async def test_the_api_exchanges_what_it_receives(rp: BareClient) -> None:
    mine, others = (await rp.tokens(resource=MACHINES)), await rp.tokens()
    rp.authorization = basic("api", SECRET)
    answer = await rp.post("/token", exchange(mine["access_token"]))
    assert answer.json()["scope"] == "events:read"
    refused = await rp.post("/token", exchange(others["access_token"]))
    assert refused.json()["error"] == "invalid_request"


def on_behalf_of(assertion: str) -> dict[str, str]:
    return {
        "grant_type": ON_BEHALF_OF,
        "assertion": assertion,
        "requested_token_use": "on_behalf_of",
        "scope": "events:read",
    }


def for_itself(_token: str) -> dict[str, str]:
    return TestClientCredentials.FORM


SAML = "urn:ietf:params:oauth:token-type:saml2"


@pytest.mark.parametrize(
    ("form", "change", "error"),
    [
        (for_itself, {"scope": "openid"}, "invalid_scope"),
        (for_itself, {"scope": "events:read", "resource": MACHINES}, "invalid_scope"),
        (for_itself, {"resource": "https://unknown.test"}, "invalid_target"),
        (exchange, {"subject_token": "unknown"}, "invalid_request"),
        (exchange, {"subject_token": ""}, "invalid_request"),
        (exchange, {"subject_token_type": JWT}, "invalid_request"),
        (exchange, {"subject_token_type": ""}, "invalid_request"),
        (exchange, {"requested_token_type": SAML}, "invalid_request"),
        (exchange, {"actor_token": "another"}, "invalid_request"),
        (exchange, {"audience": "https://unknown.test"}, "invalid_target"),
        (exchange, {"scope": "machines:read"}, "invalid_scope"),
        (exchange, {"audience": "", "scope": "openid phone"}, "invalid_scope"),
        (on_behalf_of, {"assertion": "unknown"}, "invalid_grant"),
        (on_behalf_of, {"requested_token_use": ""}, "invalid_request"),
        (on_behalf_of, {"requested_token_use": "other"}, "invalid_request"),
        (on_behalf_of, {"scope": ""}, "invalid_request"),
        (on_behalf_of, {"scope": "unknown"}, "invalid_scope"),
    ],
)
async def test_what_is_refused(
    rp: BareClient, form: Callable[[str], dict[str, str]], change: dict[str, str], error: str
) -> None:
    token = (await rp.tokens())["access_token"]
    answer = await rp.post("/token", form(token) | change)
    assert (answer.status_code, answer.json()["error"]) == (400, error)


@pytest.mark.parametrize("grant_type", ["client_credentials", EXCHANGE, ON_BEHALF_OF])
async def test_a_public_client_may_not(grant_type: str) -> None:
    rp = bare_client(PUBLIC, resources=RESOURCES)
    answer = await rp.post("/token", {"grant_type": grant_type, "client_id": "spa"})
    assert answer.json()["error"] == "unauthorized_client"


async def test_introspection_tells_clients_what_is_active() -> None:
    rp = bare_client(JWT_APP, API, PUBLIC, resources=RESOURCES)

    async def is_active(token: str) -> bool:
        answer = (await rp.post("/introspect", {"token": token})).json()
        assert answer["active"] or answer == {"active": False}
        return bool(answer["active"])

    tokens = await rp.tokens()
    assert await is_active(tokens["refresh_token"])
    await rp.refresh(tokens["refresh_token"])
    await rp.post("/revoke", {"token": tokens["access_token"]})
    expired = (await rp.tokens())["access_token"]
    rp.time.now += 300
    for token in (tokens["refresh_token"], tokens["access_token"], expired, "unknown"):
        assert not await is_active(token)
    refused = await bare_client(PUBLIC).post("/introspect", {"token": "any", "client_id": "spa"})
    assert refused.json()["error"] == "invalid_client"


async def test_the_metadata_announces_it(rp: BareClient) -> None:
    metadata = (await rp.http.get("/.well-known/openid-configuration")).json()
    assert metadata["introspection_endpoint"] == f"{rp.provider.issuer}/introspect"
    assert {"client_credentials", EXCHANGE} < set(metadata["grant_types_supported"])
    assert "ES256" in metadata["dpop_signing_alg_values_supported"]
    assert "none" not in metadata["introspection_endpoint_auth_methods_supported"]


class TestWithoutOpenID:
    async def test_a_token_for_an_api_comes_without_an_id_token(self, rp: BareClient) -> None:
        asked = {"scope": "machines:read", "resource": MACHINES, "nonce": ""}
        found = await rp.tokens(**asked)
        assert jwt_parts(found["access_token"])[1]["aud"] == MACHINES
        assert "id_token" not in found

    async def test_without_a_resource_openid_is_required(self, rp: BareClient) -> None:
        assert (await rp.answer(scope="machines:read"))["error"] == "invalid_scope"

    async def test_a_page_of_another_origin_may_ask_for_tokens(self, rp: BareClient) -> None:
        page = {"Origin": "https://app.test"}
        for url in ("/.well-known/openid-configuration", "/jwks"):
            answer = await rp.http.get(url, headers=page)
            assert answer.headers["access-control-allow-origin"] == "*"
        refused = await rp.http.post("/token", headers=page)
        assert refused.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in refused.headers
