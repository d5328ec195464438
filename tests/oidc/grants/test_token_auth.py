"""What `oidc.auth` does with requests, responses and redirects, in httpx and in httpx2."""

import asyncio
import importlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from anyio import to_thread
from fastapi import FastAPI, Request

from fastapi_oidc import ConfigurationError, Grant, OIDCMiddleware, ProviderError, StandaloneAPI
from fastapi_oidc.testing import DevResource, OAuthError, ServerError
from tests.oidc.grants.api import API_URL, Api, issued, session_id, without_refresh_token
from tests.oidc.grants.conftest import Session, calling_world
from tests.oidc.grants.test_dpop import BoundApi
from tests.oidc.interleaving import held_outage
from tests.oidc.session.test_cells import Dictionary
from tests.oidc.world import World, make_world

ELSEWHERE = "https://other.test/events"


@pytest.fixture
async def world() -> World:
    world = calling_world(session_store="memory")
    await world.signed_in()
    return world


@pytest.fixture
async def grant(world: World) -> Grant:
    return await world.oidc.grant(session_id(world))


@pytest.fixture(params=["httpx", "httpx2"])
def library(request: pytest.FixtureRequest) -> Any:
    return importlib.import_module(request.param)


def client_of(library: Any, api: Api, auth: Any) -> Any:
    """A client of the library, which calls the API and follows redirects."""

    def answered(request: Any) -> Any:
        response = api(request)
        headers = dict(response.headers)
        return library.Response(response.status_code, headers=headers, content=response.content)

    options = {"base_url": API_URL, "follow_redirects": True}
    return library.AsyncClient(auth=auth, transport=library.MockTransport(answered), **options)


async def refused(world: World, api: Api, grant: Grant) -> str:
    """The session's token, which the API refuses from now on."""
    token = await grant.access_token()
    api.refused.add(token.value)
    return token.value


async def test_a_refused_token_is_replaced_once(
    world: World, api: Api, grant: Grant, library: Any
) -> None:
    first = await refused(world, api, grant)
    async with client_of(library, api, world.oidc.auth(grant)) as client:
        response = await client.post("/events", content=b"lunch")
    assert (response.status_code, response.content) == (200, b"lunch")
    assert api.tokens == [first, (await grant.access_token()).value]
    assert issued(world) == 1


async def test_a_stream_is_sent_once(world: World, api: Api, grant: Grant) -> None:
    await refused(world, api, grant)

    async def parts() -> AsyncIterator[bytes]:
        yield b"lunch"

    async def read(request: httpx.Request) -> httpx.Response:
        await request.aread()
        return api(request)

    transport = httpx.MockTransport(read)
    async with httpx.AsyncClient(auth=world.oidc.auth(grant), transport=transport) as client:
        response = await client.post(API_URL, content=parts())
    assert response.status_code == 401
    assert len(api.tokens) == 1
    assert issued(world) == 0


async def test_without_a_refresh_token_a_refusal_is_the_response() -> None:
    world = calling_world(session_store="memory")
    world.op.edits.put("token_response", without_refresh_token)
    await world.signed_in()
    api, grant = world.app.state.api, await world.oidc.grant(session_id(world))
    await refused(world, api, grant)
    assert await api.status(world.oidc.auth(grant)) == 401


async def test_a_redirect_to_another_origin_gets_no_token(
    world: World, api: Api, grant: Grant, library: Any
) -> None:
    api.redirect_to = ELSEWHERE
    async with client_of(library, api, world.oidc.auth(grant)) as client:
        response = await client.get("/redirected")
        assert response.status_code == 401
        assert (await client.get("/events")).status_code == 200
    assert api.urls == [f"{API_URL}/redirected", ELSEWHERE, f"{API_URL}/events"]
    token = (await grant.access_token()).value
    assert api.tokens == [token, "", token]
    assert issued(world) == 0, "a refusal of the other origin says nothing of the token"


@pytest.mark.parametrize("store", [None, Dictionary()])
@pytest.mark.parametrize("is_refused", [False, True])
async def test_an_endpoint_in_a_thread_uses_a_sync_client(
    api: Api, is_refused: bool, store: Dictionary | None
) -> None:
    """Also if endpoints use all threads, and the methods of the store need some."""
    to_thread.current_default_thread_limiter().total_tokens = 1
    world = calling_world(session_store=store)
    api = world.app.state.api

    @world.app.get("/thread")
    def thread(session: Session) -> int:
        if is_refused:
            api.refused.add(session.tokens.access_token)
        with httpx.Client(auth=world.oidc.auth(session), transport=api.transport) as client:
            return client.get(API_URL).status_code

    browser = await world.signed_in()
    response = await browser.get("/thread")
    assert response.json() == 200
    assert ("set-cookie" in response.headers) == (is_refused and store is None)
    assert issued(world) == int(is_refused)


@pytest.mark.parametrize("path", ["/async", "/sync"])
async def test_a_request_never_sends_the_authentication_of_another_session(
    world: World, api: Api, path: str
) -> None:
    """A shared client whose `auth` each request sets would send a token of the last one."""
    made: list[httpx.Auth] = []
    kept: list[Any] = []
    is_over = asyncio.Event()

    async def work() -> int:
        await is_over.wait()
        return await api.status(made[0])

    @world.app.get("/make")
    async def make(session: Session, request: Request) -> None:
        made.append(world.oidc.auth(session))
        made.append(world.oidc.auth(await world.oidc.grant(session.id)))
        kept.extend((session, request.scope["fastapi_oidc"], asyncio.create_task(work())))

    @world.app.get("/sync")
    def send_in_a_thread() -> None:
        with httpx.Client(auth=made[0], transport=api.transport) as client:
            client.get(API_URL)

    @world.app.get("/async")
    async def send() -> None:
        await api.status(made[0])

    alice = await world.signed_in()
    await alice.get("/make")
    assert (await alice.get(path)).status_code == 200, "a later one of the same session"
    bob = await world.signed_in("bob")
    response = await bob.get(path)
    assert response.status_code == 500
    assert "made in another request" in world.events[-1].explanation
    assert len(api.tokens) == 1
    assert await api.status(made[0]) == 200, "a job is in no request"
    for auth in (made[1], world.oidc.auth(kept[0])):
        made[0] = auth
        assert (await bob.get(path)).status_code == 200, "it is a grant's, or was made in none"
    await bob.get("/make")
    made[0] = made[2]
    is_over.set()
    assert [await kept[2], await kept[5]] == [200, 200], "a task outlives its request"


async def test_an_inner_instance_is_in_the_same_request(world: World, api: Api) -> None:
    inner = FastAPI()
    inner.add_middleware(OIDCMiddleware, oidc=StandaloneAPI("https://op.test", API_URL))

    async def between(scope: Any, receive: Any, send: Any) -> None:
        session = await world.oidc.require_auth(Request(scope))
        scope["state"]["auth"] = world.oidc.auth(session)
        await inner(scope, receive, send)

    @inner.get("/")
    async def call(request: Request) -> int:
        return await api.status(request.state.auth)

    world.app.mount("/inner", between)
    assert (await (await world.signed_in()).get("/inner/")).json() == 200


async def test_a_sync_client_elsewhere_is_refused(world: World, api: Api, grant: Grant) -> None:
    with (
        httpx.Client(auth=world.oidc.auth(grant), transport=api.transport) as client,
        pytest.raises(ConfigurationError, match=r"httpx\.AsyncClient"),
    ):
        client.get(API_URL)  # noqa: ASYNC212


CALENDAR, MAIL = "https://calendar.test", "https://mail.test"
KIND = "client_credentials"


def app_world(**options: Any) -> World:
    resources = [DevResource(CALENDAR, scope=["events:read"]), DevResource(MAIL)]
    return make_world(provider={"resources": resources}, **options)


async def test_a_token_is_obtained_once_and_used_until_shortly_before_its_end() -> None:
    world = app_world()
    api = Api(world)
    for seconds in (0, 239):
        world.time.now = 1_800_000_000 + seconds
        auths = [world.oidc.app_auth(resource=CALENDAR) for _ in range(10)]
        assert await asyncio.gather(*map(api.status, auths)) == [200] * 10
        assert issued(world, KIND) == 1
    world.time.advance(1)
    world.op.faults.put("token", ServerError())
    for asked in (1, 2):
        assert await api.status(world.oidc.app_auth(resource=CALENDAR)) == 200
        assert issued(world, KIND) == asked
    world.time.advance(241)
    world.op.faults.put("token", held := held_outage())
    late = asyncio.create_task(api.status(world.oidc.app_auth(resource=CALENDAR)))
    await held.gate.until_reached()
    world.time.advance(60)
    held.gate.opened.set()
    with pytest.raises(ProviderError):  # the token has expired meanwhile
        await late


async def test_a_refused_token_is_replaced() -> None:
    world = app_world()
    api, auth = Api(world), world.oidc.app_auth(resource=CALENDAR)
    assert await api.status(auth) == 200
    api.refused.update(api.tokens)
    assert await api.status(auth) == 200
    assert issued(world, KIND) == 2


async def test_a_refusal_is_raised() -> None:
    world = app_world()
    world.op.faults.put("token", OAuthError("invalid_target"))
    with pytest.raises(ProviderError, match="invalid_target"):
        await Api(world).status(world.oidc.app_auth(resource=CALENDAR))


async def test_with_dpop_the_token_is_bound_to_a_key_of_the_application() -> None:
    world = app_world(settings={"dpop": True})
    api = BoundApi(world, nonce="n-1")
    for _ in range(2):
        assert await api.status(world.oidc.app_auth(resource=CALENDAR)) == 200
    assert len({proof.thumbprint for proof in api.proofs}) == 1
    assert issued(world, KIND) == 1


@pytest.mark.parametrize(
    ("host", "allows"), [("calendar.test", False), ("calendar.test", True), ("127.0.0.1", False)]
)
async def test_no_token_leaves_the_machine_unencrypted(host: str, allows: bool) -> None:
    """RFC 6750 5.3."""
    world = app_world(session_store="memory", settings={"allow_insecure_http": allows})
    await world.signed_in()
    oidc, api, url = world.oidc, Api(world), f"http://{host}/events"
    is_sent = allows or host == "127.0.0.1"
    grant, as_itself = await oidc.grant(session_id(world)), oidc.app_auth(resource=CALENDAR)
    for auth in (oidc.auth(grant), as_itself):
        async with api.client(auth) as client:
            if is_sent:
                assert (await client.get(url)).status_code == 200
            else:
                with pytest.raises(ConfigurationError, match=r"unencrypted\. Use https") as caught:
                    await client.get(url)
                assert caught.value.code == "configuration.insecure_url"
    assert api.urls == ([url] * 2 if is_sent else [])
