"""Opaque tokens: what is said of them (RFC 7662). What an API says of itself (RFC 9728)."""

import asyncio
import secrets
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI
from starlette.types import Message

from fastapi_oidc import OIDC, AccessToken, Code, ConfigurationError, OIDCMiddleware, OIDCSession
from fastapi_oidc.protocol.dpop import PROOF_ALGORITHMS
from fastapi_oidc.testing import DevClient, OAuthError, ServerError, TokenIntrospected
from fastapi_oidc.testing.faults import Fault
from fastapi_oidc.web.api import API
from tests.oidc.interleaving import Held, begun
from tests.oidc.resource_server.api_world import AUDIENCE, METADATA_URL, APIWorld, make_api_world
from tests.oidc.web.test_startup import start
from tests.oidc.world import make_world


def make() -> APIWorld:
    return make_api_world(token_format="opaque", introspect=True)


def questions(world: APIWorld) -> int:
    return len(world.world.op.record.of(TokenIntrospected))


@pytest.mark.parametrize(
    ("seconds", "lives"),
    [(60, 300), (10, 10)],
    ids=["a minute", "until exp"],
)
async def test_a_response_is_cached(seconds: int, lives: int) -> None:
    world = make()
    token, ends = await world.token(), world.now + lives
    world.world.op.edits.put("introspection", lambda said: said | {"exp": ends})
    for passed in (0, 0, seconds - 1):
        world.world.time.advance(passed)
        assert (await world.get(token)).json()["scope"] == ["machines:read"]
    assert questions(world) == 1
    world.world.time.advance(1)
    assert (await world.get(token)).status_code == 200
    assert questions(world) == 2


async def test_requests_at_once_share_one_question() -> None:
    world = make()
    token, other = await world.token(), await world.token()
    answers = await asyncio.gather(*(world.get(each) for each in [token, other] * 10))
    assert {answer.status_code for answer in answers} == {200}
    assert questions(world) == 2


async def test_lifetime_0_asks_each_time() -> None:
    world = make_api_world(token_format="opaque", introspect=True, introspection_lifetime=0)
    token = await world.token()
    for asked in (1, 2):
        assert (await world.get(token)).status_code == 200
        assert questions(world) == asked


async def test_a_response_that_comes_after_the_token_s_end_lets_nobody_in() -> None:
    world = make()
    token, held = await world.token(), Held(first=True)
    world.world.op.edits.put("introspection", lambda said: said | {"exp": world.now + 5})
    world.world.op.faults.put("introspection", held)
    asked = begun(world.get(token))
    await held.gate.until_reached()
    world.world.time.advance(40)
    held.gate.opened.set()
    assert (await asked).json()["code"] == Code.ACCESS_TOKEN_EXPIRED


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (ServerError(), "provider.status"),
        (OAuthError("invalid_client"), "token.invalid_client"),
    ],
)
async def test_while_the_provider_fails_or_refuses_nobody_gets_in_and_that_is_not_cached(
    fault: Fault, code: str
) -> None:
    world = make()
    token = await world.token()
    world.world.op.faults.put("introspection", fault)
    answer = await world.get(token)
    assert (answer.status_code, answer.json()["code"]) == (503, code)
    assert int(answer.headers["retry-after"]) >= 5
    assert token not in answer.text
    assert (await world.get(token)).status_code == 200


def without_endpoint() -> APIWorld:
    world = make()
    world.world.op.edits.put(
        "metadata",
        lambda said: {name: one for name, one in said.items() if name != "introspection_endpoint"},
    )
    return world


async def test_a_provider_without_introspection_is_told_at_the_start_and_no_outage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = without_endpoint()
    await started(world)
    assert f"The API {AUDIENCE}: introspect: the provider's metadata has no" in caplog.text
    answer = await world.get(await world.token())
    assert (answer.status_code, answer.json()["code"]) == (500, "configuration.invalid")


async def started(world: APIWorld) -> None:
    """Start the application, and stop it when the API has looked at the provider."""
    messages = iter(["lifespan.startup", "lifespan.shutdown"])

    async def receive() -> Message:
        if (looking := world.api._looking) is not None:
            await asyncio.wait([looking])
        return {"type": next(messages)}

    async def send(message: Message) -> None: ...

    scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
    await world.world.app(scope, receive, send)


async def test_nothing_is_told_at_the_start_of_an_api_in_order_or_of_an_outage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    await started(make())
    world = make()
    world.world.op.faults.put("metadata", ServerError(), times=9)
    await started(world)
    assert [each for each in caplog.messages if "/either" not in each] == []


async def test_a_jwt_is_verified_here_and_an_opaque_token_at_the_provider() -> None:
    for token_format, asked in (("jwt", 0), ("opaque", 1)):
        world = make_api_world(token_format=token_format, introspect="opaque")
        assert (await world.get(await world.token())).status_code == 200
        assert (await world.get("a.b.c")).json()["code"] == Code.ACCESS_TOKEN_INACTIVE
        assert questions(world) == asked + 1


async def test_an_opaque_token_without_introspection(caplog: pytest.LogCaptureFixture) -> None:
    world = make_api_world(token_format="opaque")
    answer = await world.get(await world.token())
    assert (answer.status_code, answer.json()["code"]) == (401, Code.JWS_MALFORMED)
    assert "an opaque token, not a JWT" in caplog.text
    assert 'oidc.api(introspect="opaque")' in caplog.text


async def test_the_api_introspects_with_a_client_of_its_own() -> None:
    secret = secrets.token_urlsafe(32)
    own = DevClient(client_id="the-api", client_secret=secret)
    world = make_api_world(
        token_format="opaque",
        introspect=True,
        introspection_client=("the-api", secret),
        more_clients=[own],
    )
    assert (await world.get(await world.token())).status_code == 200
    [asked] = world.world.op.record.of(TokenIntrospected)
    assert asked.client_id == "the-api"


async def test_what_is_not_active_is_not_cached() -> None:
    world = make()
    token = await world.token()
    for given in (token, "invented", "invented", token):
        await world.get(given)
    assert questions(world) == 3


SCOPES = {"machines:read": "See machines", "machines:write": "Change machines"}


async def document(world: APIWorld, path: str = METADATA_URL) -> Any:
    answer = await world.world.browser().get(path, headers={"Origin": "https://inspector.test"})
    assert answer.status_code == 200
    if path != "/openapi.json":
        assert answer.headers["access-control-allow-origin"] == "*", "any browser may read it"
    return answer.json()


async def test_the_metadata_lead_to_the_provider() -> None:
    world = make_api_world(scopes=SCOPES, client_certificate_header="Client-Cert")
    assert await document(world) == {
        "resource": AUDIENCE,
        "authorization_servers": ["https://op.test"],
        "scopes_supported": ["machines:read", "machines:write"],
        "bearer_methods_supported": ["header"],
        "dpop_signing_alg_values_supported": list(PROOF_ALGORITHMS),
        "tls_client_certificate_bound_access_tokens": True,
    }


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        ("https://app.test", ""),
        ("https://app.test/v1/", "/v1"),
    ],
)
async def test_the_metadata_are_where_clients_look(resource: str, path: str) -> None:
    world = make_api_world(audience="api://machines", resource=resource)
    url = f"https://app.test/.well-known/oauth-protected-resource{path}"
    assert (await document(world, url))["resource"] == resource
    answer = await world.get("dead")
    assert answer.headers["www-authenticate"].endswith(f'resource_metadata="{url}"')


async def test_an_api_whose_audience_is_no_url_has_no_metadata() -> None:
    world = make_api_world(audience="api://machines")
    with pytest.raises(ConfigurationError, match="resource="):
        _ = world.api.router
    assert "resource_metadata" not in (await world.get("dead")).headers["www-authenticate"]


async def test_no_dependency_of_the_application_guards_the_metadata() -> None:
    world = make_api_world()
    api, oidc = world.api, world.world.oidc
    guarded = FastAPI(dependencies=[Depends(oidc.require_auth), Depends(api.require())])
    guarded.add_middleware(OIDCMiddleware, oidc=oidc)
    guarded.include_router(api.router)
    async with world.world.op.browser(guarded, base_url="https://app.test") as browser:
        assert (await browser.get(METADATA_URL)).status_code == 200


async def test_the_api_document_shows_how_to_get_a_token_and_the_scopes() -> None:
    found = await document(make_api_world(), "/openapi.json")
    schemes = found["components"]["securitySchemes"]
    assert schemes["oidc_api"] == {
        "type": "openIdConnect",
        "openIdConnectUrl": "https://op.test/.well-known/openid-configuration",
    }
    assert found["paths"]["/machines"]["get"]["security"] == [{"oidc_api": ["machines:read"]}]
    assert found["paths"]["/roles"]["get"]["security"] == [{"oidc_api": []}]
    assert found["paths"]["/either"]["get"]["security"] == [{"oidc": []}, {"oidc_api": []}]
    security = found["paths"]["/either/machines"]["post"]["security"]
    assert {"oidc_api": ["machines:write"]} in security


async def test_the_authorize_button_can_know_the_endpoints() -> None:
    world = make_api_world(
        scopes=SCOPES,
        authorization_url="https://op.test/authorize",
        token_url="https://op.test/token",
    )
    found = await document(world, "/openapi.json")
    flow = found["components"]["securitySchemes"]["oidc_api"]["flows"]["authorizationCode"]
    assert flow == {
        "authorizationUrl": "https://op.test/authorize",
        "tokenUrl": "https://op.test/token",
        "scopes": SCOPES,
    }


def mount_changes(app: FastAPI, oidc: OIDC[Any, Any], api: API[Any]) -> None:
    second = Depends(oidc.api("https://app.test/other").require("x"))
    app.get("/other", dependencies=[second])(lambda: None)

    @app.post("/change", responses=api.responses)
    async def change(session: Annotated[OIDCSession[Any], Depends(oidc.require_csrf)]) -> None: ...

    @app.get("/see", responses=api.responses)
    async def see(token: Annotated[AccessToken, Depends(api.require())]) -> None: ...


async def test_the_document_shows_a_second_api_the_csrf_header_and_the_refusals() -> None:
    found = await document(make_api_world(mount=mount_changes), "/openapi.json")
    assert found["paths"]["/other"]["get"]["security"] == [{"oidc_api2": ["x"]}]
    [header] = found["paths"]["/change"]["post"]["parameters"]
    assert (header["in"], header["name"]) == ("header", "X-CSRF-Token")
    assert "parameters" not in found["paths"]["/see"]["get"]
    responses = found["paths"]["/see"]["get"]["responses"]
    schema = {"$ref": "#/components/schemas/Refusal"}
    for status in ("401", "403"):
        assert responses[status]["content"]["application/json"]["schema"] == schema
    assert set(found["components"]["schemas"]["Refusal"]["properties"]) == {"detail", "code"}


@pytest.mark.parametrize("prefix", [None, "/v1", "too late", ""])
async def test_metadata_that_are_not_served_are_told_at_the_start(
    prefix: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    oidc = make_world().oidc
    app, api = FastAPI(), oidc.api(AUDIENCE)
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(oidc.router, prefix="/auth")
    if prefix == "too late":
        app.get("/{page:path}")(lambda page: page)
    if prefix is not None:
        app.include_router(api.router, prefix=prefix if prefix == "/v1" else "")
    await start(app)
    told = [message.splitlines()[-1] for message in caplog.messages]
    assert [each.rpartition(": ")[2] for each in told] == (
        [] if prefix == "" else ["app.include_router(api.router)"]
    )
