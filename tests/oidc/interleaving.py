"""Hold one thing back while another happens: the order is driven, nothing waits for a clock."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import httpx
from fastapi import FastAPI, Request
from starlette.responses import Response

from fastapi_oidc import OIDC, Event, OIDCSettings
from fastapi_oidc.testing.faults import Answer
from tests.oidc.world import BASE_URL, World, application

PATIENCE = 20


@dataclass(slots=True)
class Gate:
    """Whoever comes waits until the gate is opened."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    async def passed(self) -> None:
        self.reached.set()
        async with asyncio.timeout(PATIENCE):
            await self.opened.wait()

    async def until_reached(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.reached.wait()


@dataclass(slots=True)
class Held:
    """A fault of the provider: its answer is right, or `answer`, and comes when the gate is opened.

    `first` lets the provider do its work before it waits, as when the answer is slow on its way.
    """

    gate: Gate = field(default_factory=Gate)
    first: bool = False
    answer: Response | None = None

    async def happen(self, answer: Answer) -> Response:
        response = await answer() if self.first else self.answer
        await self.gate.passed()
        return response or await answer()


def held_outage() -> Held:
    """The provider is unavailable, which is known when the gate is opened."""
    return Held(answer=Response(status_code=503))


@dataclass(frozen=True, slots=True)
class Raised:
    """A fault of the way to the provider."""

    error: Exception

    async def happen(self, _: Answer) -> Response:
        raise self.error


def with_gate(gate: Gate) -> Callable[[FastAPI, OIDC[Any, Any]], None]:
    """A page `/slow` that has loaded its session, and answers when the gate is opened."""

    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.get("/slow")
        async def slow(request: Request) -> object:
            await gate.passed()
            return {"sub": request.state.oidc.session and request.state.oidc.session.sub}

    return mount


def another_process(
    world: World,
    *,
    mount: Callable[[FastAPI, OIDC[Any, Any]], None] | None = None,
    settings: OIDCSettings | None = None,
    **options: Any,
) -> World:
    """A world with the same provider, and the same clock and settings but for those given.

    What the processes share is in `options`.
    """
    events: list[Event] = []
    options.setdefault("clock", world.oidc.runtime.party.clock)
    oidc = OIDC(
        settings or world.oidc.settings,
        transport=httpx.ASGITransport(world.op.app),
        on_event=events.append,
        **options,
    )
    return World(world.op, oidc, application(oidc, mount, {}), world.time, events)


def same_browser(browser: httpx.AsyncClient, world: World) -> httpx.AsyncClient:
    """The same browser, whose next requests a load balancer gives to `world`."""
    other = world.op.browser(world.app, base_url=BASE_URL)
    other._cookies = browser._cookies  # one jar
    return other


def begun(request: Coroutine[Any, Any, httpx.Response]) -> asyncio.Task[httpx.Response]:
    """The request, under way."""
    return asyncio.create_task(request)
