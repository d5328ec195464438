"""The processes of the application, and what becomes of their requests to stores and provider."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

import httpx
from fastapi import FastAPI, Request
from starlette.responses import JSONResponse

from fastapi_oidc import OIDC, Clock, DownstreamAPI, OIDCError, OIDCMiddleware
from fastapi_oidc.session.rows import Row
from fastapi_oidc.session.store import Cell, Store, Stored

if TYPE_CHECKING:
    from tests.oidc.machine.ledger import Presentation
    from tests.oidc.machine.world import MachineWorld

EPOCH: Final = 1_800_000_000
STORE_TIMEOUT: Final = 5.0
SKEWS: Final = (0, 20, -20)
"""Seconds by which the clocks of the processes differ from the provider's; 30 are tolerated."""
RESOURCES: Final = {"calendar": "https://calendar.test", "mail": "https://mail.test"}
APIS: Final = [
    DownstreamAPI(grant="refresh_token", resource=RESOURCES["calendar"]),
    DownstreamAPI(grant="token_exchange", resource=RESOURCES["mail"]),
]


class Fault(Enum):
    """What becomes of one request to a store or to the provider."""

    DOWN = "it is not sent"
    REPLY_LOST = "it takes effect, and its reply does not arrive"
    LATE = "it takes effect when the gate opens, maybe after its sender gave up"
    LATE_REPLY = "its reply comes when the gate opens"
    PAUSED = "it takes effect, and its sender stands still until the gate opens"


@dataclass(frozen=True)
class Mode:
    """Where an application keeps its sessions, and which option has the store."""

    option: str = "back_channel_logout_store"
    processes: int = 2
    idle_timeout: int | None = None
    dpop: bool = False

    @property
    def is_shared(self) -> bool:
        return bool(self.option)

    @property
    def in_store(self) -> bool:
        return self.option == "session_store"


class Process:
    """One process of the application: an `OIDC` object, and what it asks over the network."""

    def __init__(self, world: MachineWorld, number: int) -> None:
        self.world, self.is_dead, self.is_paused = world, False, False
        self.clock_error: float = SKEWS[number % len(SKEWS)]
        self.faults: defaultdict[str, deque[Fault | None]] = defaultdict(deque)
        mode = world.mode
        clock = Clock(read=lambda: EPOCH + world.loop.seconds + self.clock_error)
        options: dict[str, Any] = {mode.option: _Store(self)} if mode.option else {}
        self.oidc: OIDC[Any, Any] = OIDC(
            world.settings,
            clock=clock,
            transport=_ToProvider(self),
            downstream_apis=APIS,
            **options,
        )
        self.app = _application(self.oidc, world)

    async def ask(
        self, name: str, operation: Callable[[], Awaitable[Any]], note: Callable[[Any], None]
    ) -> Any:
        """The reply of the store, with the next fault of this name."""
        world, fault = self.world, await self.next_fault(name)
        if fault is not None and name != "find":
            world.ledger.hinder(self)

        async def effect() -> Any:
            if fault is Fault.LATE:
                await world.gate.wait()
            result = await operation()
            note(result)
            if fault is Fault.LATE_REPLY:
                await world.gate.wait()
            return result

        if fault is Fault.DOWN:
            raise ConnectionError("down")
        if fault in (None, Fault.PAUSED):
            result = await effect()
            if fault is Fault.PAUSED:
                await world.stand_still()
        else:
            async with asyncio.timeout(STORE_TIMEOUT):
                result = await asyncio.shield(world.spawn(effect()))
        await self.require_alive()
        if fault is Fault.REPLY_LOST:
            raise ConnectionError("the reply was lost")
        return result

    async def next_fault(self, name: str) -> Fault | None:
        await self.require_alive()
        return self.faults[name].popleft() if self.faults[name] else None

    async def require_alive(self) -> None:
        """A dead process does nothing any more, a paused one until the gate opens."""
        while self.is_paused:
            await self.world.gate.wait()
        if self.world.is_closing:
            raise ConnectionError("the world ends")
        if self.is_dead:
            await asyncio.get_running_loop().create_future()


class _Store(Store):
    """The store that all processes share, asked over the network."""

    def __init__(self, process: Process) -> None:
        self.process, self.inner = process, process.world.store

    async def read(self, keys: Sequence[str], /) -> Sequence[bytes]:
        values: Sequence[bytes] = await self.process.ask(
            "find", partial(self.inner.read, keys), lambda result: None
        )
        return values

    async def swap(self, key: str, before: bytes | None, after: Cell, /) -> Stored | None:
        """A fault of a write has the name of what becomes of the row, or of the key."""
        _, kind, id = key.split(":", 2)  # after the name of the instance
        old, new = self._row(f"{kind}:{id}", before), self._row(f"{kind}:{id}", after.value)
        name = "list" if new is None else _change(old, new)
        name = "revoke" if kind in ("user", "sid") else name
        name = "look" if before is None else name

        def note(result: Stored | None) -> None:
            if result is None and new is not None and kind == "session":
                self.process.world.ledger.note(self.process, id, name)

        operation = partial(self.inner.swap, key, before, after)
        found: Stored | None = await self.process.ask(name, operation, note)
        return found

    def _row(self, key: str, value: bytes | None) -> Row | None:
        if not key.startswith(("session:", "token:", "login:")):
            return None
        return self.process.oidc.runtime.party.sessions.cells.seen(key, value or b"").row


def _change(before: Row | None, after: Row) -> str:
    before = before or Row()
    if after.ended:
        return "end"
    if after.answer and not before.answer:
        return "record"
    if after.owner:
        return "take"
    return "finish" if after.generation > before.generation else "write"


class _ToProvider(httpx.AsyncBaseTransport):
    """The network between a process and the provider; refresh tokens that pass are written down."""

    def __init__(self, process: Process) -> None:
        self.process, self.world = process, process.world
        self.provider = httpx.ASGITransport(self.world.op.app)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        form = parse_qs((await request.aread()).decode())
        if form.get("grant_type") != ["refresh_token"]:
            return await self._reply(request, await self.process.next_fault("provider"), None)
        fault = await self.process.next_fault("token")
        if fault is Fault.DOWN:
            raise httpx.ConnectError("down")
        presentation = self.world.ledger.present(self.process, form["refresh_token"][0])
        try:
            return await self._reply(request, fault, presentation)
        finally:
            presentation.over = not self.process.is_dead

    async def _reply(
        self, request: httpx.Request, fault: Fault | None, presentation: Presentation | None
    ) -> httpx.Response:
        if fault is Fault.DOWN:
            raise httpx.ConnectError("down")
        if fault is Fault.LATE:
            await self.world.gate.wait()
        response = await self.provider.handle_async_request(request)
        is_good = response.status_code == 200
        if presentation is not None:
            presentation.used = is_good
        if fault is Fault.LATE_REPLY:
            await self.world.gate.wait()
        await self.process.require_alive()
        if fault is Fault.REPLY_LOST:
            raise httpx.ReadError("the reply was lost")
        if presentation is not None:
            presentation.arrived = is_good
        return response


def _application(oidc: OIDC[Any, Any], world: MachineWorld) -> FastAPI:
    async def me(request: Request) -> JSONResponse:
        return _described(await oidc.require_auth(request))

    async def long(request: Request) -> JSONResponse:
        """A connection that stays open until it gets an order."""
        await oidc.require_auth(request)
        if await world.orders[request.path_params["number"]] == "ask":
            return JSONResponse({"is_signed_in": await oidc.is_still_signed_in(request)})
        return _described(await oidc.refresh(request))

    async def refused(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, OIDCError)
        return JSONResponse({"code": error.code}, error.status)

    app = FastAPI(openapi_url=None, exception_handlers={OIDCError: refused})
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(oidc.router, prefix="/auth")
    app.add_route("/me", me)
    app.add_route("/long/{number:int}", long)
    _add_callers(app, oidc, world)
    return app


def _add_callers(app: FastAPI, oidc: OIDC[Any, Any], world: MachineWorld) -> None:
    async def call(request: Request) -> JSONResponse:
        """Calls an API within the request of a browser."""
        session, api = await oidc.require_auth(request), request.path_params["api"]
        await called(api, session.sub, oidc.auth(session, resource=RESOURCES.get(api)))
        return _described(session)

    async def job(request: Request) -> JSONResponse:
        """Has only the session's id."""
        api, user = request.path_params["api"], request.path_params["user"]
        grant = await oidc.grant(request.path_params["id"], resource=RESOURCES.get(api))
        await called(api, user, oidc.auth(grant))
        return JSONResponse({"is_signed_in": True})

    async def called(api: str, user: str, auth: httpx.Auth) -> None:
        transport = world.ledger.api(api, user)
        async with httpx.AsyncClient(auth=auth, transport=transport) as client:
            await client.get("https://api.test")

    app.add_route("/call/{api}", call)
    app.add_route("/job/{id}/{user}/{api}", job)


def _described(session: Any) -> JSONResponse:
    names = ("sub", "id", "sid", "generation")
    return JSONResponse({name: getattr(session, name) for name in names})
