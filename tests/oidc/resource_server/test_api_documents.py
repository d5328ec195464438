"""What an API says of itself: its metadata (RFC 9728) and its part of the API document."""

from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI

from fastapi_oidc import OIDC, AccessToken, ConfigurationError, OIDCMiddleware, OIDCSession
from fastapi_oidc.protocol.dpop import PROOF_ALGORITHMS
from fastapi_oidc.web.api import API
from tests.oidc.resource_server.api_world import AUDIENCE, METADATA_URL, APIWorld, make_api_world
from tests.oidc.web.test_startup import start
from tests.oidc.world import make_world

SCOPES = {"machines:read": "See machines", "machines:write": "Change machines"}


async def document(world: APIWorld, path: str = METADATA_URL) -> Any:
    answer = await world.world.browser().get(path, headers={"Origin": "https://inspector.test"})
    assert answer.status_code == 200
    if path != "/openapi.json":
        assert answer.headers["access-control-allow-origin"] == "*", "any browser may read it"
    return answer.json()


async def test_the_metadata_lead_to_the_provider() -> None:
    assert await document(make_api_world(scopes=SCOPES)) == {
        "resource": AUDIENCE,
        "authorization_servers": ["https://op.test"],
        "scopes_supported": ["machines:read", "machines:write"],
        "bearer_methods_supported": ["header"],
        "dpop_signing_alg_values_supported": list(PROOF_ALGORITHMS),
    }


async def test_the_metadata_name_what_else_the_api_accepts() -> None:
    found = await document(make_api_world(client_certificate_header="Client-Cert"))
    assert found["tls_client_certificate_bound_access_tokens"] is True
    assert "scopes_supported" not in found


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        ("https://app.test", ""),
        ("https://app.test/", ""),
        ("https://app.test/v1/machines", "/v1/machines"),
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
    @app.post("/change", responses=api.responses)
    async def change(session: Annotated[OIDCSession[Any], Depends(oidc.require_csrf)]) -> None: ...

    @app.get("/see", responses=api.responses)
    async def see(token: Annotated[AccessToken, Depends(api.require())]) -> None: ...


async def test_the_document_shows_the_csrf_header_and_the_refusals() -> None:
    found = await document(make_api_world(mount=mount_changes), "/openapi.json")
    for path, method in (("/change", "post"), ("/either", "post")):
        [header] = found["paths"][path][method]["parameters"]
        assert (header["in"], header["name"]) == ("header", "X-CSRF-Token")
    assert "parameters" not in found["paths"]["/see"]["get"]
    responses = found["paths"]["/see"]["get"]["responses"]
    schema = {"$ref": "#/components/schemas/Refusal"}
    for status in ("401", "403"):
        assert responses[status]["content"]["application/json"]["schema"] == schema
    assert set(found["components"]["schemas"]["Refusal"]["properties"]) == {"detail", "code"}


async def test_a_second_api_has_a_scheme_of_its_own() -> None:
    def mount(app: FastAPI, oidc: OIDC[Any, Any], api: API[Any]) -> None:
        other = oidc.api("https://app.test/other")

        @app.get("/other")
        async def read(token: Annotated[AccessToken, Depends(other.require("x"))]) -> None: ...

    found = await document(make_api_world(mount=mount), "/openapi.json")
    assert found["paths"]["/other"]["get"]["security"] == [{"oidc_api2": ["x"]}]


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
