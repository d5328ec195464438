"""`oidc.app_auth`: tokens of the application itself (RFC 6749 4.4)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fastapi_oidc import Clock, MemoryStore, ProviderError
from fastapi_oidc.testing import DevResource, OAuthError, ServerError, TokensIssued
from tests.oidc.flows.fallible_stores import fallible
from tests.oidc.grants.api import Api, issued
from tests.oidc.grants.test_dpop import BoundApi
from tests.oidc.interleaving import another_process
from tests.oidc.world import Time, World, make_world

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
    assert await api.status(world.oidc.app_auth(resource=CALENDAR)) == 200
    assert issued(world, KIND) == 2


async def test_each_target_has_a_token_of_its_own() -> None:
    world = app_world()
    api = Api(world)
    targets: list[dict[str, Any]] = [
        {"resource": CALENDAR},
        {"resource": MAIL},
        {"audience": CALENDAR},
        {"scope": "events:read"},
    ]
    for target in targets * 2:
        assert await api.status(world.oidc.app_auth(**target)) == 200
    sent = [event.parameters for event in world.op.record.of(TokensIssued)]
    names = ("resource", "audience", "scope")
    assert [{name: form[name] for name in names if name in form} for form in sent] == targets


async def test_a_refused_token_is_replaced() -> None:
    world = app_world()
    api, auth = Api(world), world.oidc.app_auth(resource=CALENDAR)
    assert await api.status(auth) == 200
    api.refused.update(api.tokens)
    assert await api.status(auth) == 200
    assert issued(world, KIND) == 2


async def test_processes_share_a_token() -> None:
    time = Time()
    shared: dict[str, Any] = {"back_channel_logout_store": MemoryStore(clock=Clock(read=time))}
    here = app_world(time=time, **shared)
    there = another_process(here, **shared)
    api = Api(here)
    auths = [world.oidc.app_auth(resource=CALENDAR) for world in (here, there)] * 5
    assert await asyncio.gather(*map(api.status, auths)) == [200] * 10
    assert issued(here, KIND) == 1


async def test_while_the_store_is_down_each_process_has_its_own_token() -> None:
    time = Time()
    outage, stores = fallible("store", time)
    world = app_world(time=time, **stores)
    outage.is_down = True
    api = Api(world)
    auths = [world.oidc.app_auth(resource=CALENDAR) for _ in range(5)]
    assert await asyncio.gather(*map(api.status, auths)) == [200] * 5
    assert issued(world, KIND) == 1


async def test_a_valid_token_serves_while_the_provider_is_down() -> None:
    world = app_world()
    api, auth = Api(world), world.oidc.app_auth(resource=CALENDAR)
    await api.status(auth)
    world.time.advance(250)
    world.op.faults.put("token", ServerError(), times=2)
    assert await api.status(auth) == 200
    world.time.advance(100)
    with pytest.raises(ProviderError):
        await api.status(auth)


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
