"""Access tokens of sessions, in a request and after it, and for callers with a token (RFC 8693)."""

import asyncio
from dataclasses import replace
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, Request

from fastapi_oidc import (
    OIDC,
    AccessToken,
    Caller,
    Code,
    ConfigurationError,
    DownstreamAPI,
    IssuedToken,
    OIDCSession,
    PersistContext,
    ProtocolViolation,
    SessionError,
)
from fastapi_oidc.session import rows
from fastapi_oidc.session.rows import LEASE_SECONDS
from fastapi_oidc.testing import DevResource, Lifetimes, TokenRevoked, sign_in
from fastapi_oidc.testing.token_endpoint import EXCHANGE, ON_BEHALF_OF
from tests.oidc.flows.steps import AFTER_EXPIRY, copy_of, generation, others_have_run, two_processes
from tests.oidc.grants.api import Api, issued, session_id, without_refresh_token
from tests.oidc.grants.conftest import Session, calling_world
from tests.oidc.grants.test_downstream_apis import CALENDAR, GRANT_TYPES, MAIL, described
from tests.oidc.interleaving import Held, another_process, begun, same_browser
from tests.oidc.resource_server.api_world import AUDIENCE, APIWorld, make_api_world
from tests.oidc.world import Time, World, make_world

NEARLY_EXPIRED = 250
"""Seconds after which a token of 300 is not valid for the next minute, and is not refreshed yet."""


async def test_a_token_is_refreshed_for_the_time_that_is_needed(world: World, api: Api) -> None:
    browser = await world.signed_in()
    world.time.advance(NEARLY_EXPIRED)
    assert (await browser.get("/call?min_validity=10")).json() == [200]
    assert issued(world) == 0
    assert (await browser.get("/call?times=3")).json() == [200, 200, 200]
    assert issued(world) == 1
    assert len(set(api.tokens)) == 2


async def test_the_response_has_the_cookie_of_the_refresh(world: World, store: Any) -> None:
    browser = await world.signed_in()
    world.time.advance(NEARLY_EXPIRED)
    response = await browser.get("/call")
    assert ("set-cookie" in response.headers) == (store is None)
    browser = same_browser(browser, another_process(world, session_store=store))
    assert await generation(browser) == 1
    world.time.advance(AFTER_EXPIRY)
    assert await generation(browser) == 2
    assert issued(world) == 2


async def test_after_the_response_only_a_store_takes_a_refresh(
    world: World, api: Api, mode: str
) -> None:
    browser = await world.signed_in()
    await browser.get("/later")
    assert world.app.state.later == [200]
    world.time.advance(NEARLY_EXPIRED)
    await browser.get("/later?min_validity=10")
    await browser.get("/later")
    if mode == "store":
        assert world.app.state.later == [200, 200, 200]
        assert issued(world) == 1
        return
    *_, error = world.app.state.later
    assert isinstance(error, SessionError)
    assert (error.code, error.instance) == (Code.SESSION_RESPONSE_STARTED, "oidc")
    assert "session_store" in error.explanation
    assert issued(world) == 0, "nothing was lost"
    assert (await browser.get("/call")).json() == [200]


async def test_a_caller_that_is_cancelled_leaves_the_refresh_and_its_cookie(
    world: World, api: Api, mode: str
) -> None:
    browser, held = await world.signed_in(), Held()

    @world.app.get("/cancelled")
    async def cancelled(session: Session) -> None:
        task = asyncio.create_task(api.status(world.oidc.auth(session)))
        await held.gate.until_reached()
        task.cancel()
        await asyncio.wait([task])
        held.gate.opened.set()

    world.time.advance(NEARLY_EXPIRED)
    world.op.faults.put("token", held)
    response = await browser.get("/cancelled")
    assert ("set-cookie" in response.headers) == (mode == "cookie")
    assert await generation(browser) == 1


async def test_a_request_that_clears_its_session_gets_no_token(world: World, api: Api) -> None:
    browser, errors = await world.signed_in(), []

    @world.app.get("/cleared")
    async def cleared(session: Session, request: Request) -> None:
        world.oidc.clear_session(request)
        try:
            await api.status(world.oidc.auth(session))
        except SessionError as error:
            errors.append(error.code)

    await browser.get("/cleared")
    assert errors == [Code.SESSION_REQUIRED]
    assert not api.tokens


async def test_a_session_without_refresh_token_uses_its_token_to_the_end() -> None:
    world = calling_world()
    world.op.edits.put("token_response", without_refresh_token)
    browser = await world.signed_in()
    world.time.advance(NEARLY_EXPIRED)
    assert (await browser.get("/call")).json() == [200]


async def test_a_request_that_signs_in_calls_with_the_session_that_it_began(
    store: Any, time: Time
) -> None:
    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.get("/auth/callback")
        async def callback(request: Request) -> list[int]:
            session = (await oidc.handle_callback(request)).session
            api: Api = app.state.api
            api.refused.add(session.tokens.access_token)
            return [await api.status(oidc.auth(session)), session.generation]

        app.router.routes.insert(0, app.router.routes.pop())

    world = make_world(mount=mount, session_store=store, time=time)
    world.app.state.api = Api(world)
    browser = world.browser()
    assert (await sign_in(browser, "/auth/login", user="alice")).json() == [200, 0]
    browser = same_browser(browser, another_process(world, session_store=store))
    assert await generation(browser) == 1
    assert issued(world) == 1


async def test_a_session_that_is_stored_without_its_token_says_so() -> None:
    def without(context: PersistContext[Any]) -> OIDCSession[Any]:
        tokens = context.session.tokens.model_copy(update={"access_token": ""})
        return context.session.model_copy(update={"tokens": tokens})

    world = calling_world(before_session_persist=without, session_store="memory")
    await world.signed_in()
    grant = await world.oidc.grant(session_id(world))
    with pytest.raises(ConfigurationError, match="before_session_persist removes"):
        await grant.access_token()
    assert issued(world) == 0


@pytest.fixture
def processes() -> tuple[World, World]:
    return two_processes("store", **described("token_exchange"))


async def test_fifty_tasks_in_two_processes_make_one_token_call(
    processes: tuple[World, World],
) -> None:
    here, there = processes
    browser = await here.signed_in()
    id = session_id(here)
    grants = [await world.oidc.grant(id) for world in (here, there) for _ in range(25)]
    for number in range(1, 4):
        here.time.advance(NEARLY_EXPIRED)
        tokens = await asyncio.gather(*(grant.access_token() for grant in grants))
        assert len({token.value for token in tokens}) == 1
        assert issued(here) == number
    both = (here, there) * 25
    grants = [await world.oidc.grant(id, resource=CALENDAR) for world in both]
    tokens = await asyncio.gather(*(grant.access_token() for grant in grants))
    assert len({token.value for token in tokens}) == 1
    assert issued(here, GRANT_TYPES["token_exchange"]) == 1
    assert await generation(copy_of(browser, there)) == await generation(browser) == 3


async def test_a_token_for_an_api_is_sealed(processes: tuple[World, World]) -> None:
    here, _ = processes
    await here.signed_in()
    grant = await here.oidc.grant(session_id(here), resource=CALENDAR)
    token = await grant.access_token()
    values = here.oidc.registrations.engine.store._values  # type: ignore[attr-defined]
    [key] = [each for each in values._entries if each.startswith("oidc:token:")]
    assert token.value not in repr(values.get(key))
    assert values._entries[key][0] > here.time() + 8 * 3600


async def test_a_grant_ends_with_its_session(processes: tuple[World, World]) -> None:
    here, there = processes
    await here.signed_in()
    grants = [await world.oidc.grant(session_id(here)) for world in (here, there)]
    await here.oidc.revoke(session_id=session_id(here))
    for grant in grants:
        with pytest.raises(SessionError) as caught:
            await grant.access_token()
        assert caught.value.code is Code.SESSION_REQUIRED
    with pytest.raises(SessionError):
        await there.oidc.grant(session_id(here))
    with pytest.raises(SessionError, match="there is none"):
        await there.oidc.grant("x" * len(session_id(here)))


def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.get("/refreshed")
    async def refreshed(request: Request) -> str:
        return (await oidc.refresh(request)).tokens.access_token

    @app.get("/token")
    async def token(session: Session) -> str:
        return session.tokens.access_token


async def token_for(world: World, resource: str) -> IssuedToken:
    grant = await world.oidc.grant(session_id(world), resource=resource)
    return await grant.access_token()


@pytest.mark.parametrize("is_elsewhere", [False, True])
async def test_a_forced_refresh_waits_for_an_apis_token_and_refreshes_then(
    is_elsewhere: bool,
) -> None:
    here, there = two_processes("store", **described("refresh_token", mount=mount))
    browser = copy_of(await here.signed_in(), there if is_elsewhere else here)
    before = (await browser.get("/token")).json()
    held = Held(first=True)
    here.op.faults.put("token", held)
    calendar = asyncio.create_task(token_for(here, CALENDAR))
    await held.gate.until_reached()
    refreshed = begun(browser.get("/refreshed"))
    await others_have_run()
    held.gate.opened.set()
    await calendar
    assert (await refreshed).json() != before
    assert issued(here) == 2, "one for the API, one for the session"


async def test_a_token_that_comes_after_another_attempts_is_revoked_and_not_used(
    processes: tuple[World, World], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sign-out revokes the tokens that are stored; this one would outlive it."""
    here, there = processes
    await here.signed_in()
    id, held = session_id(here), Held()
    grants = [await world.oidc.grant(id, resource=CALENDAR) for world in (here, there)]
    here.op.faults.put("token", held)
    late = asyncio.create_task(grants[0].access_token())
    await held.gate.until_reached()
    monkeypatch.setattr(rows, "WATCH_SECONDS", 0.0)
    here.time.advance(LEASE_SECONDS + 1)  # paused for so long that its row is taken
    stored = await grants[1].access_token()
    held.gate.opened.set()
    assert (await late).value == stored.value
    assert len(here.op.record.of(TokenRevoked)) == 1
    assert (await grants[0].access_token()).value == stored.value


APIS = [
    DownstreamAPI(grant="token_exchange", resource=CALENDAR, scope="events:read"),
    DownstreamAPI(grant="on_behalf_of", resource="https://mail.test", scope="mail:read"),
    DownstreamAPI(grant="refresh_token", audience="files"),
]
RESOURCES = [
    DevResource(AUDIENCE, ["machines:read", "machines:write"], client_id="app"),
    DevResource(CALENDAR, ["events:read"]),
    DevResource("https://mail.test", ["mail:read"]),
]


def calling(app: FastAPI, oidc: OIDC[Any, Any], api: Any) -> None:
    @app.get("/caller")
    async def call(caller: Annotated[Caller[Any], Depends(api.require_user)]) -> int:
        app.state.callers.append(caller)
        status: int = await app.state.downstream.status(oidc.auth(caller, resource=CALENDAR))
        return status


def world_of_callers(
    lifetimes: Lifetimes | None = None, settings: dict[str, Any] | None = None, **world: Any
) -> APIWorld:
    made = make_api_world(
        mount=calling,
        settings=settings,
        provider={"resources": RESOURCES, "lifetimes": lifetimes},
        world={"downstream_apis": APIS, **world},
    )
    made.world.app.state.callers = []
    made.world.app.state.downstream = Api(made.world)
    return made


async def caller_in(world: APIWorld) -> Caller[Any]:
    """A caller whose token was accepted, and has got one token for the calendar."""
    token = world.world.op.access_token("alice", audience=AUDIENCE)
    assert (await world.get(token, "/caller")).json() == 200
    caller: Caller[Any] = world.world.app.state.callers[-1]
    return caller


async def token_in(world: APIWorld) -> AccessToken:
    token = (await caller_in(world)).access_token
    assert token is not None
    return token


@pytest.mark.parametrize(
    ("target", "grant_type", "audience"),
    [({"resource": CALENDAR}, EXCHANGE, CALENDAR), ({"scope": "mail:read"}, ON_BEHALF_OF, MAIL)],
)
async def test_a_callers_token_is_exchanged_once(
    target: dict[str, Any], grant_type: str, audience: str
) -> None:
    world = world_of_callers()
    caller, downstream = await caller_in(world), Api(world.world)
    auths = [world.world.oidc.auth(caller, **target) for _ in range(5)]
    assert await asyncio.gather(*map(downstream.status, auths)) == [200] * 5
    [sent] = set(downstream.tokens)
    credential = world.world.op._state.credentials.access_token(sent)
    assert credential is not None
    assert credential.access.audience == audience
    assert issued(world.world, grant_type) == 1
    assert caller.access_token is not None
    assert sent != caller.access_token.value


async def test_a_job_goes_on_with_the_token_of_a_caller() -> None:
    world = world_of_callers(Lifetimes(access_token=300))
    token = await token_in(world)
    grant = await world.world.oidc.grant(token, resource=CALENDAR)
    world.world.time.advance(299)
    later = await grant.access_token()
    assert later.expires_at is not None
    assert later.expires_at > token.expires_at
    world.world.time.advance(200)
    assert await grant.access_token() == later, "the caller's token has expired, this one has not"
    world.world.time.advance(100)
    with pytest.raises(ProtocolViolation, match=r"access_token\.expired.*only its client"):
        await grant.access_token()


async def test_a_job_goes_on_with_the_session_of_a_caller() -> None:
    world = world_of_callers(session_store="memory")
    assert (await (await world.world.signed_in()).get("/caller")).json() == 200
    grant = await world.world.oidc.grant(world.world.app.state.callers[0], resource=CALENDAR)
    assert (await grant.access_token()).scope == ("events:read",)
    assert issued(world.world, EXCHANGE) == 1


@pytest.mark.parametrize(
    ("target", "explanation"),
    [
        ({}, "not sent to another one: select one of downstream_apis"),
        ({"audience": "files"}, "a caller has no refresh token"),
        ({"audience": "unknown"}, "none of downstream_apis"),
    ],
)
async def test_a_token_that_cannot_be_exchanged_is_never_sent(
    target: dict[str, Any], explanation: str
) -> None:
    world = world_of_callers()
    caller = await caller_in(world)
    with pytest.raises(ConfigurationError, match=explanation):
        world.world.oidc.auth(caller, **target)
    with pytest.raises(ConfigurationError, match=explanation):
        await world.world.oidc.grant(caller, **target)


async def test_a_token_of_another_issuer_stays_here() -> None:
    """The provider could use a token that another one has issued."""
    world = world_of_callers()
    other = replace(await token_in(world), iss="https://other.test")
    with pytest.raises(ConfigurationError, match=r"not https://other\.test"):
        world.world.oidc.auth(other, resource=CALENDAR)
