"""`oidc.auth` for a caller with an access token: the provider exchanges it (RFC 8693)."""

import asyncio
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI

from fastapi_oidc import (
    OIDC,
    AccessToken,
    Caller,
    ConfigurationError,
    DownstreamAPI,
    ProtocolViolation,
)
from fastapi_oidc.testing import DevResource, Lifetimes
from fastapi_oidc.testing.token_endpoint import EXCHANGE, ON_BEHALF_OF
from tests.oidc.flows.fallible_stores import fallible
from tests.oidc.grants.api import Api, issued
from tests.oidc.resource_server.api_world import AUDIENCE, APIWorld, make_api_world
from tests.oidc.world import Time

CALENDAR = "https://calendar.test"
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


def calling_world(
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
    [
        ({"resource": CALENDAR}, EXCHANGE, CALENDAR),
        ({"scope": "mail:read"}, ON_BEHALF_OF, "https://mail.test"),
    ],
)
async def test_a_callers_token_is_exchanged_once(
    target: dict[str, Any], grant_type: str, audience: str
) -> None:
    world = calling_world()
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
    world = calling_world(Lifetimes(access_token=300))
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
    world = calling_world(session_store="memory")
    assert (await (await world.world.signed_in()).get("/caller")).json() == 200
    grant = await world.world.oidc.grant(world.world.app.state.callers[0], resource=CALENDAR)
    assert (await grant.access_token()).scope == ("events:read",)
    assert issued(world.world, EXCHANGE) == 1


async def test_callers_are_served_while_the_store_is_down() -> None:
    time = Time()
    outage, stores = fallible("store", time)
    world = calling_world(time=time, **stores)
    token = await token_in(world)
    outage.is_down = True
    downstream = Api(world.world)
    assert await downstream.status(world.world.oidc.auth(token, resource=CALENDAR)) == 200


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
    world = calling_world()
    caller = await caller_in(world)
    with pytest.raises(ConfigurationError, match=explanation):
        world.world.oidc.auth(caller, **target)
    with pytest.raises(ConfigurationError, match=explanation):
        await world.world.oidc.grant(caller, **target)


async def test_a_token_of_another_issuer_stays_here() -> None:
    """The provider could use a token that another one has issued."""
    world = calling_world()
    token = await token_in(world)
    other = AccessToken(
        iss="https://other.test",
        sub=token.sub,
        aud=token.aud,
        client_id=token.client_id,
        scope=token.scope,
        roles=(),
        expires_at=token.expires_at,
        claims={},
        value=token.value,
    )
    with pytest.raises(ConfigurationError, match=r"not https://other\.test"):
        world.world.oidc.auth(other, resource=CALENDAR)
