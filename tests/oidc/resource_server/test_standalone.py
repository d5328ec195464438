"""`StandaloneAPI`: tokens alone, without sign-in, sessions or a cookie secret."""

import asyncio
import logging
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Depends, FastAPI, Security

from fastapi_oidc import (
    AccessToken,
    Caller,
    Code,
    ConfigurationError,
    DownstreamAPI,
    OIDCMiddleware,
    StandaloneAPI,
    StandardIdentity,
)
from fastapi_oidc.testing import DevClient, DevProvider, DevResource, DevUser

AUDIENCE, CALENDAR = "https://api.test/machines", "https://calendar.test"
SECRET = "the-secret-of-the-api-at-this-provider"


@pytest.fixture
def op() -> DevProvider:
    return DevProvider(
        users=[DevUser("alice", "Alice")],
        clients=[
            DevClient(client_id="api", client_secret=SECRET),
            DevClient(client_id="program", access_token_format="plain_jwt"),
        ],
        resources=[DevResource(AUDIENCE, client_id="api"), DevResource(CALENDAR)],
    )


def standalone(op: DevProvider, **options: Any) -> StandaloneAPI:
    return StandaloneAPI(op.issuer, AUDIENCE, transport=httpx.ASGITransport(op.app), **options)


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
        token = op.access_token("alice", audience=AUDIENCE, scope=scope)
        for method, status in zip(("GET", "POST"), statuses, strict=True):
            response = await answer(op, app, method, Authorization=f"Bearer {token}")
            assert response.status_code == status


async def test_plain_jwts_need_the_client_of_the_id_tokens(op: DevProvider) -> None:
    """RFC 8725 3.12. The `azp` of an ID token may be another client than its `aud` (Core 2)."""
    with pytest.raises(ConfigurationError, match="pass client_id="):
        standalone(op, accept_plain_jwt=True)
    app = served(standalone(op, accept_plain_jwt=True, client_id="program"))
    plain = op.access_token("alice", audience=AUDIENCE, scope="read", client_id="program")
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


async def test_a_mounted_application_closes_the_connections_itself(op: DevProvider) -> None:
    api = standalone(op)
    app, token = served(api), op.access_token("alice", audience=AUDIENCE, scope="read")
    await answer(op, app, Authorization=f"Bearer {token}")
    [client] = api.registrations.engine.network._clients.here().values()
    await api.aclose()
    assert client.is_closed


def test_it_is_closed_in_another_event_loop_than_it_looked_in(op: DevProvider) -> None:
    api = standalone(op, client_id="api", client_secret=SECRET, introspect=True)
    with op.test_client(served(api), base_url="https://api.test"):
        pass
    asyncio.run(api.aclose())


async def test_its_callers_tokens_are_exchanged(op: DevProvider) -> None:
    calendar = DownstreamAPI(grant="token_exchange", resource=CALENDAR)
    api = standalone(op, client_id="api", client_secret=SECRET, downstream_apis=[calendar])
    app = served(api)
    tokens = []

    @app.put("/machines")
    async def put(caller: Annotated[Caller[StandardIdentity], Depends(api.require_user)]) -> None:
        tokens.append(await (await api.grant(caller, resource=CALENDAR)).access_token())

    value = op.access_token("alice", audience=AUDIENCE)
    assert (await answer(op, app, "PUT", Authorization=f"Bearer {value}")).status_code == 200
    assert tokens[0].value != value


def test_an_audience_that_is_no_url_needs_the_resource() -> None:
    with pytest.raises(ConfigurationError, match="needs the URL of the API"):
        StandaloneAPI("https://op.test", "api://machines")
    with pytest.raises(TypeError, match=r"StandaloneAPI\(\) got an unexpected .*'cookie_secret'"):
        StandaloneAPI("https://op.test", AUDIENCE, cookie_secret="x" * 32)  # type: ignore[call-arg]
