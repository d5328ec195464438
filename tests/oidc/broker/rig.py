"""A person who is signed in, a broker with a route to an API, and a guest that has access."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from fastapi_oidc import Clock, DownstreamAPI, MemoryStore, OIDCSession
from fastapi_oidc.broker import Access, AccessEvent, Broker, Limits, Route, Use
from fastapi_oidc.testing import DevResource, DevUser
from tests.oidc.broker.apis import Api, serving
from tests.oidc.broker.guests import NAME, Guest
from tests.oidc.interleaving import another_process
from tests.oidc.world import Time, World, make_world

RESOURCE = "https://calendar.test"
APIS = [DownstreamAPI(grant="token_exchange", resource=RESOURCE)]
TWO_HOURS = timedelta(hours=2)
ALLOWED = ("GET /events", "POST /events", "GET /files/**")


@dataclass(slots=True)
class Rig:
    """Everything a test looks at."""

    world: World
    browser: httpx.AsyncClient
    session: OIDCSession[Any]
    broker: Broker
    api: Api
    access: Access
    guest: Guest

    @property
    def trail(self) -> list[AccessEvent]:
        """The calls so far."""
        events = [event for event in self.world.events if isinstance(event, AccessEvent)]
        return [event for event in events if event.name == "access.called"]

    async def use(self) -> Use:
        """What calls have cost, as it is stored."""
        await self.broker.app(self.access).aclose()
        return (await self.broker.check(self.access)).use


def broker_world(store: Any = None, time: Time | None = None, **options: Any) -> World:
    """A world whose sessions get tokens for the calendar."""
    time = time or Time()
    provider = {
        "users": [DevUser("alice"), DevUser("bob")],
        "resources": [DevResource(RESOURCE, scope=["events"])],
    } | options.pop("provider", {})
    return make_world(
        session_store=store or MemoryStore(clock=Clock(read=time)),
        time=time,
        downstream_apis=APIS,
        provider=provider,
        **options,
    )


def route_to(api: Api, **options: Any) -> Route:
    """The route of the calendar."""
    target = {} if {"auth", "own_token"} & options.keys() else {"resource": RESOURCE}
    return Route(**{"url": api.url, "allow": ALLOWED, **target, **options})


async def session_of(world: World, sub: str = "alice") -> OIDCSession[Any]:
    """The user's newest session."""
    return (await world.oidc.sessions_of(sub))[0]


@asynccontextmanager
async def rigged(
    world: World | None = None,
    api: Api | None = None,
    limits: Limits | None = None,
    **route: Any,
) -> AsyncIterator[Rig]:
    """A guest that may call the API as Alice for two hours."""
    world = world or broker_world()
    browser = await world.signed_in()
    session = await session_of(world)
    with TemporaryDirectory() as folder:
        async with serving(api or Api()) as api:
            routes = {NAME: route_to(api, **route)}
            broker = Broker(world.oidc, routes, limits=limits)
            access = await broker.give(session, to="m1", routes=[NAME], until=TWO_HOURS)
            path = Path(folder, "vsock_8080")  # as `machine.vsock_path` returns it
            async with broker.serve(access, path):
                yield Rig(world, browser, session, broker, api, access, Guest(str(path)))


def store_of(rig: Rig) -> Any:
    """The session store."""
    return rig.world.oidc.runtime.party.sessions.cells.store


def another_broker(rig: Rig, **options: Any) -> tuple[World, Broker]:
    """The broker of another control-plane process on the same store."""
    world = another_process(rig.world, session_store=store_of(rig), downstream_apis=APIS)
    return world, Broker(world.oidc, rig.broker.routes, **options)
