"""`oidc.app_auth`: tokens of the application itself (RFC 6749 4.4)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fastapi_oidc import Clock, MemoryStore, ProviderError
from fastapi_oidc.testing import DevResource, OAuthError
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
