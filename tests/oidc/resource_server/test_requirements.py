"""What an API can require of a token: its issuer, its key, the user's authentication."""

import asyncio
import logging
from itertools import product
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Depends, FastAPI, Security

from fastapi_oidc import (
    OIDC,
    AccessToken,
    Caller,
    Clock,
    Code,
    ConfigurationError,
    DownstreamAPI,
    IdentityContext,
    OIDCMiddleware,
    StandaloneAPI,
    StandardIdentity,
)
from fastapi_oidc.protocol.dpop import DPoPKey
from fastapi_oidc.testing import DevClient, DevProvider, DevResource, DevUser
from fastapi_oidc.web.api import API
from tests.oidc.resource_server.api_world import (
    AUDIENCE,
    MACHINES,
    METADATA_URL,
    APIWorld,
    make_api_world,
)
from tests.oidc.web.asking import begin
from tests.oidc.web.several_providers import Hosts
from tests.oidc.world import make_world

SECOND = "https://second.test"


def two_providers() -> tuple[APIWorld, DevProvider]:
    ops: dict[str, DevProvider] = {}
    world = make_api_world(
        issuers=[SECOND], resolve_identity=resolve_identity, world={"transport": Hosts(ops)}
    )
    second = DevProvider(
        issuer=SECOND,
        users=[DevUser("alice")],
        clients=[],
        resources=[DevResource(AUDIENCE, ["machines:read"])],
        clock=Clock(read=world.world.time),
    )
    ops |= {"op": world.world.op, "second": second}
    return world, second


def token_of(second: DevProvider) -> str:
    return second.access_token("alice", audience=AUDIENCE, scope="machines:read")


async def test_no_issuer_signs_for_another() -> None:
    world, second = two_providers()
    second.edits.put("access_token", lambda claims: claims | {"iss": "https://op.test"})
    answer = await world.get(token_of(second))
    assert (answer.status_code, answer.json()["code"]) == (401, Code.JWS_KEY_MISSING)
    world.world.op.edits.put("access_token", lambda claims: claims | {"iss": SECOND})
    assert (await world.get(await world.token())).json()["code"] == Code.JWS_KEY_MISSING


async def resolve_identity(context: IdentityContext) -> StandardIdentity:
    claims = context.id_token_claims
    return StandardIdentity(sub=f"{claims['iss']} {claims['sub']}")


async def test_users_of_two_issuers_are_two_users() -> None:
    world, second = two_providers()
    tokens = [await world.token(), token_of(second)]
    users = [(await world.get(token, "/either")).json()["sub"] for token in tokens]
    assert users == ["https://op.test program", f"{SECOND} alice"]


async def test_several_issuers_need_a_function_for_their_users() -> None:
    api = an_api(issuers=[SECOND])
    api.require("machines:read")
    with pytest.raises(ConfigurationError, match="a sub is unique only within its issuer"):
        _ = api.require_user


@pytest.mark.parametrize("issuers", [SECOND, ["http://second.test"], ["second.test"]])
def test_an_issuer_is_an_https_url(issuers: object) -> None:
    with pytest.raises(ConfigurationError):
        make_api_world(issuers=issuers)


async def test_an_api_that_requires_dpop_refuses_bearer_tokens() -> None:
    world, key = make_api_world(dpop_required=True), DPoPKey.new()
    refused = await world.get(await world.token())
    assert (refused.status_code, refused.json()["code"]) == (401, Code.ACCESS_TOKEN_BINDING)
    async with world.world.browser() as browser:
        invited = await browser.get("/machines")
        metadata = (await browser.get(METADATA_URL)).json()
    for answer in (refused, invited):
        assert answer.headers["www-authenticate"].startswith('DPoP realm="oidc"')
        assert "Bearer" not in answer.headers["www-authenticate"]
    assert metadata["dpop_bound_access_tokens_required"] is True
    token = await world.token(key=key)
    proof = key.proof("GET", MACHINES, world.now, access_token=token)
    assert (await world.get(token, scheme="DPoP", DPoP=proof)).status_code == 200


def mount(app: FastAPI, _oidc: OIDC[Any, Any], api: API[Any]) -> None:
    @app.delete("/machines")
    async def delete(
        token: Annotated[
            AccessToken,
            Depends(api.require("machines:read", max_age=300, acr_values=["mfa", "phr"])),
        ],
    ) -> str:
        return token.sub


@pytest.mark.parametrize(
    ("claims", "status"),
    [
        ({}, 401),
        ({"acr": "mfa"}, 401),
        ({"auth_time": 1_799_999_800}, 401),
        ({"acr": "mfa", "auth_time": "1799999800"}, 401),
        ({"acr": "mfa", "auth_time": 1_799_999_800}, 200),
    ],
)
async def test_a_token_must_prove_the_authentication(claims: dict[str, Any], status: int) -> None:
    """RFC 9470 3 and 5."""
    world = make_api_world(mount=mount)
    token = await world.with_claims(**claims)
    async with world.world.browser() as program:
        answer = await program.delete("/machines", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == status
    if status == 401:
        assert answer.json()["code"] == Code.ACCESS_TOKEN_STEP_UP_REQUIRED
        challenge = answer.headers["www-authenticate"]
        assert 'error="insufficient_user_authentication"' in challenge
        assert 'scope="machines:read", max_age="300", acr_values="mfa phr"' in challenge


async def test_a_missing_role_is_nothing_that_a_client_can_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = make_api_world()
    answer = await world.get(await world.with_claims(roles=["viewer"]), "/roles")
    assert (answer.status_code, answer.json()["code"]) == (403, Code.ACCESS_TOKEN_ROLE)
    assert "www-authenticate" not in answer.headers
    assert "roles_claim" not in caplog.text
    await world.get(await world.with_claims(roles=[]), "/roles")
    assert "and has none where roles_claim is: a path is a tuple" in caplog.text


def an_api(**options: Any) -> API[Any]:
    return make_world().oidc.api(AUDIENCE, **options)


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("required_scopes", "endpoints name their scopes"),
        ("jwks_uri", "the metadata of the issuer has it"),
        ("zzz", "known are accept_plain_jwt, algorithms"),
    ],
)
def test_an_unknown_option_is_a_type_error_with_the_name_meant(option: str, hint: str) -> None:
    with pytest.raises(TypeError, match=rf"oidc\.api\(\) .* argument '{option}': {hint}"):
        an_api(**{option: ["admin"]})


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"scopes": ["machines:read"]}, "scopes: "),
        ({"introspect": "jwt"}, "introspect"),
        ({"dpop_required": "yes"}, "dpop_required"),
        ({"introspect": True, "introspection_client": ("api", "")}, "introspection_client"),
        ({"introspect": True, "introspection_client": "api"}, "introspection_client"),
    ],
)
def test_an_option_of_another_form_is_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        an_api(**options)


def test_acr_values_are_a_list_and_max_age_is_a_number() -> None:
    with pytest.raises(TypeError, match="acr_values must be list or tuple, not str"):
        an_api().require(acr_values="mfa")
    with pytest.raises(ConfigurationError, match="seconds"):
        an_api().require(max_age=-1)


async def test_the_challenge_has_what_all_guards_of_the_endpoint_need() -> None:
    """Otherwise a client gets a token for one guard that another one refuses, and so on."""
    scopes = ("machines:read", "machines:write")

    def mount(app: FastAPI, _oidc: OIDC[Any, Any], api: API[Any]) -> None:
        guards = [api.require("machines:read", max_age=300), api.require("machines:write")]
        app.get("/both", dependencies=[Depends(guard) for guard in guards])(lambda: None)
        scoped = [Security(api.require_user, scopes=[scope]) for scope in scopes]
        app.get("/scoped", dependencies=scoped)(lambda: None)

    world = make_api_world(mount=mount)
    answers = [await begin(world.world.app, "/both")]
    for path, scope in product(("/both", "/scoped"), scopes):
        answers.append(await world.get(await world.token(scope), path))
    for answer in answers:
        named = answer.headers["www-authenticate"].partition('scope="')[2].partition('"')[0]
        assert set(named.split()) == set(scopes)


ALONE, CALENDAR = "https://api.test/machines", "https://calendar.test"
SECRET = "the-secret-of-the-api-at-this-provider"


@pytest.fixture
def op() -> DevProvider:
    return DevProvider(
        users=[DevUser("alice", "Alice")],
        clients=[
            DevClient(client_id="api", client_secret=SECRET),
            DevClient(client_id="program", access_token_format="plain_jwt"),
        ],
        resources=[DevResource(ALONE, client_id="api"), DevResource(CALENDAR)],
    )


def standalone(op: DevProvider, **options: Any) -> StandaloneAPI:
    return StandaloneAPI(op.issuer, ALONE, transport=httpx.ASGITransport(op.app), **options)


def served(api: StandaloneAPI) -> FastAPI:
    app = FastAPI()
    app.add_middleware(OIDCMiddleware, oidc=api)
    app.include_router(api.router)

    @app.get("/machines")
    async def read(token: Annotated[AccessToken, Depends(api.require("read"))]) -> str:
        return token.sub

    @app.post("/machines")
    async def write(
        caller: Annotated[Caller[StandardIdentity], Security(api.require_user, scopes=["write"])],
    ) -> str:
        return caller.identity.sub

    return app


async def answer(op: DevProvider, app: FastAPI, method: str = "GET", **headers: str) -> Any:
    async with op.browser(app, base_url="https://api.test") as client:
        return await client.request(method, "/machines", headers=headers)


async def test_tokens_get_in_by_their_scopes(op: DevProvider) -> None:
    app = served(standalone(op))
    for scope, statuses in (("read", (200, 403)), ("write", (403, 200))):
        token = op.access_token("alice", audience=ALONE, scope=scope)
        for method, status in zip(("GET", "POST"), statuses, strict=True):
            response = await answer(op, app, method, Authorization=f"Bearer {token}")
            assert response.status_code == status


async def test_plain_jwts_need_the_client_of_the_id_tokens(op: DevProvider) -> None:
    """RFC 8725 3.12. The `azp` of an ID token may be another client than its `aud` (Core 2)."""
    with pytest.raises(ConfigurationError, match="pass client_id="):
        standalone(op, accept_plain_jwt=True)
    app = served(standalone(op, accept_plain_jwt=True, client_id="program"))
    plain = op.access_token("alice", audience=ALONE, scope="read", client_id="program")
    assert (await answer(op, app, Authorization=f"Bearer {plain}")).status_code == 200


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("headers", [{}, {"Accept": "text/html"}, {"Cookie": "__Host-api=x"}])
async def test_without_a_token_nobody_is_sent_to_a_login(
    op: DevProvider, method: str, headers: dict[str, str]
) -> None:
    refused = await answer(op, served(standalone(op)), method, **headers)
    assert (refused.status_code, refused.json()["code"]) == (401, Code.ACCESS_TOKEN_REQUIRED)
    assert 'resource_metadata="https://api.test/.well-known' in refused.headers["www-authenticate"]


def test_nothing_is_missing_at_startup(op: DevProvider, caplog: pytest.LogCaptureFixture) -> None:
    app = served(standalone(op))
    with op.test_client(app, base_url="https://api.test") as client:
        paths = client.get("/openapi.json").json()
    assert [record.message for record in caplog.records if record.levelno > logging.INFO] == []
    assert list(paths["components"]["securitySchemes"]) == ["api_api"]


def test_it_is_closed_in_another_event_loop_than_it_looked_in(op: DevProvider) -> None:
    api = standalone(op, client_id="api", client_secret=SECRET, introspect=True)
    with op.test_client(served(api), base_url="https://api.test"):
        pass
    asyncio.run(api.aclose())


async def test_its_callers_tokens_are_exchanged(op: DevProvider) -> None:
    calendar = DownstreamAPI(grant="token_exchange", resource=CALENDAR)
    api = standalone(op, client_id="api", client_secret=SECRET, downstream_apis=[calendar])
    app = served(api)

    @app.put("/machines")
    async def put(caller: Annotated[Caller[StandardIdentity], Depends(api.require_user)]) -> str:
        return (await (await api.grant(caller, resource=CALENDAR)).access_token()).value

    value = op.access_token("alice", audience=ALONE)
    assert (await answer(op, app, "PUT", Authorization=f"Bearer {value}")).json() != value


def test_an_audience_that_is_no_url_needs_the_resource() -> None:
    with pytest.raises(ConfigurationError, match="needs the URL of the API"):
        StandaloneAPI("https://op.test", "api://machines")
    with pytest.raises(TypeError, match=r"StandaloneAPI\(\) got an unexpected .*'cookie_secret'"):
        StandaloneAPI("https://op.test", ALONE, cookie_secret="x" * 32)  # type: ignore[call-arg]
