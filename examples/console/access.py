"""What machines may do as a person: given, served while they run, shown, and withdrawn."""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final, Literal, NamedTuple

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from examples.console.account import CHECKED, Posted, Signed, User, for_those_who, oidc_of
from examples.console.events import Done, address, recorded
from examples.console.failures import as_sentence
from examples.console.guest import require_shown
from examples.console.guest_console import AHosted
from examples.console.history import ended
from examples.console.host import Host
from examples.console.hosted import HostedMonitor
from examples.console.pages import page
from examples.console.records import Event, Person, moment
from examples.console.settings import SettingsError
from examples.console.view import AVisit, machine_page
from examples.console.words import ENDED, TIMES
from fastapi_oidc import (
    OIDC,
    Code,
    ConfigurationError,
    DownstreamAPI,
    EventName,
    OIDCSession,
    SessionError,
)
from fastapi_oidc.broker import Access, AccessEvent, Broker, Refused, Route
from generated_vmm import VmmError

PORT: Final = 8080
"""The vsock port of the host that a guest connects to."""
LOOK_SECONDS: Final = 1.0
"""Seconds between two looks for the end of an access or a machine."""
TOLD_SECONDS: Final = 300.0
"""Seconds for which calls are answered, with 401, after an access has ended."""
LONGEST_CALL: Final = 300
"""Characters of method, name and path that the trail shows: a guest chooses the path."""


class Given(BaseModel):
    """An access and its person's name, as they are recorded; `fault` is why it is not served."""

    access: Access
    by: str
    fault: str = Field(default="", exclude=True)

    def may_be_withdrawn_by(self, user: User, machine: str) -> bool:
        """Whether the user has given it, or is an admin of the machine."""
        return user.sub == self.access.sub or user.may("administer", machine)


class Accesses:
    """The accesses of a host's machines, each served while its machine runs.

    The session store judges them. The records say which access a machine has, so that the next
    console serves it again. Raises ConfigurationError.
    """

    def __init__(self, oidc: OIDC[User], apis: Apis, host: Host) -> None:
        self.broker = Broker(oidc, apis.routes)
        self._host = host
        self.given: dict[str, Given] = {}
        """What each machine was given last, by its key, unless that is long over."""
        self._kept: dict[str, asyncio.Task[None]] = {}
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Serve within the block what was given before, and what is given then."""
        found = await asyncio.to_thread(self._host.records.accesses)
        for machine in self._host.hosted:
            with suppress(KeyError, ValidationError):  # it has none, or of another release
                self._keep(machine, Given.model_validate_json(found[machine.key]))
        try:
            yield
        finally:
            for task in self._kept.values():
                task.cancel()
            await asyncio.gather(*self._kept.values(), return_exceptions=True)

    async def give(
        self, session: OIDCSession[User], machine: HostedMonitor, routes: list[str], minutes: int
    ) -> None:
        """Give a machine access, and serve it. Raises SessionError."""
        until = timedelta(minutes=minutes)
        async with self._turn:  # of two at the same time, the store's last one is served
            name = f"{machine.name} ({machine.key})"
            access = await self.broker.give(session, to=name, routes=routes, until=until)
            await ended(self._kept.get(machine.key))  # a socket has one owner at a time
            given = Given(access=access, by=session.identity.name)
            self._host.records.keep_access(machine.key, given.model_dump_json())
            self._keep(machine, given)

    async def shown(
        self, machine: HostedMonitor, session: OIDCSession[User]
    ) -> Mapping[str, object]:
        """What a page shows: the access with its use, and the calls that wait for this person."""
        given, ended = self.given.get(machine.key), ""
        access = given.access if given else None
        try:
            access = await self.broker.check(access) if access else None
        except Refused as error:
            ended = ENDED.get(error.code, error.public_text)
        is_mine = access is not None and access.sub == session.sub
        return {
            "given": given,
            "access": access,
            "ended": ended,
            "waiting": access.waiting if access and is_mine else (),
            "routes": self.broker.routes,
            "times": TIMES,
        }

    def note(self, event: AccessEvent) -> None:
        """Record a call, or what becomes of a call that waits, as an event of its machine."""
        if event.name in (EventName.ACCESS_GIVEN, EventName.ACCESS_WITHDRAWN):
            return  # it is recorded with who has done it
        key, name = _key(event.machine), event.machine.partition(" ")[0]
        by = self.given[key].by if key in self.given else ""
        who, (what, refused, detail) = Person(event.sub or "", by), _told(event)
        told = Event(moment(event.at), who, what, refused, name, detail, machine_id=key)
        if event.name is EventName.ACCESS_CALLED:
            told = replace(told, is_call=True)
        elif event.name is EventName.ACCESS_APPROVAL_DECIDED:  # by its person, not by the guest
            told = replace(told, address=address())
        self._host.records.add_event(told)

    def _keep(self, machine: HostedMonitor, given: Given) -> None:
        self.given[machine.key] = given
        work = self._follow(machine, given)
        self._kept[machine.key] = asyncio.create_task(work, name=f"access of {machine.name}")

    async def _follow(self, machine: HostedMonitor, given: Given) -> None:
        """Serve an access while its machine runs, until it has ended or the machine is deleted."""
        while self._host.get(machine.name) is machine and await self._lasts(given.access):
            try:
                if run := machine.run:
                    await self._serve(machine, run, given)
            except (OSError, VmmError) as error:  # it is tried again
                given.fault = as_sentence(error)
            await asyncio.sleep(LOOK_SECONDS)
        if self._host.get(machine.name) is not machine:
            with suppress(SessionError):  # the store is down: nobody uses it until its time
                await self.broker.withdraw(given.access)
        del self.given[machine.key], self._kept[machine.key]
        self._host.records.forget_access(machine.key)

    async def _serve(self, machine: HostedMonitor, run: str, given: Given) -> None:
        path, user = machine.machine.vsock_path(PORT), machine.machine.record.uid
        owner = (user, user) if user else None
        async with self.broker.serve(given.access, str(path), owner=owner):
            given.fault = ""
            while machine.run == run and await self._lasts(given.access):  # noqa: ASYNC110 - polled
                await asyncio.sleep(LOOK_SECONDS)
            if machine.run == run:
                await asyncio.sleep(TOLD_SECONDS)

    async def _lasts(self, access: Access) -> bool:
        """Whether it has not ended, as far as the store says."""
        try:
            await self.broker.check(access)
        except SessionError as error:
            return error.is_outage
        return True


def _key(machine: str) -> str:
    """The machine that the broker knows as `name (key)`: names are used again, keys are not."""
    return machine.rpartition("(")[2].rstrip(")")


def _told(event: AccessEvent) -> tuple[str, str, str]:
    """What an event says in the trail: what was done, why it was refused, and further details."""
    call = f"{event.method} {event.route}{event.path}"
    where = call[:LONGEST_CALL] if event.route else "an API"
    if event.name is not EventName.ACCESS_CALLED:
        return f"{where} {event.explanation.rpartition(' ')[2]}.", "", ""
    cost = f"{event.sent} B sent, {event.received} B received, {1000 * event.seconds:.1f} ms"
    if event.code is None:
        return f"Called {where}: {event.status}, {cost}.", "", ""
    why = ENDED.get(event.code) or Refused(event.code).public_text
    return f"Called {where}: {event.status}.", why, cost


def routes(accesses: Accesses) -> APIRouter:
    """The part of the page that is polled, and its buttons."""
    router, operators = APIRouter(), for_those_who("operate")

    @router.get("/machines/{machine}/guest/access")
    async def shown(
        request: Request, monitor: AHosted, session: Signed, machine_id: str
    ) -> HTMLResponse:
        if machine_id != monitor.key:  # else an earlier machine's page would get its form
            raise HTTPException(410, "The page is of an earlier machine of this name.")
        values = {"giving": await accesses.shown(monitor, session), "user": session.identity}
        token = oidc_of(request).csrf_token(session)
        return page("access.html", {**values, "monitor": monitor, "csrf_token": token})

    @operators.post("/machines/{machine}/guest/access", dependencies=CHECKED)
    async def give(monitor: AHosted, visit: AVisit) -> Response:
        form = await visit.request.form()
        names, time = [str(one) for one in form.getlist("route")], str(form.get("time", ""))
        wanted = f"access to {', '.join(names)[:200]} for {time[:20]}"

        async def act() -> Done:
            require_shown(monitor, form.get("machine_id"))
            if not names or not set(names) <= set(accesses.broker.routes) or time not in TIMES:
                raise ValueError("choose what to give, and for how long")
            await accesses.give(visit.session, monitor, names, TIMES[time])
            return Done(f"Gave it {wanted}.")

        if failure := await recorded(monitor.events, f"give it {wanted}", act):
            return await machine_page(monitor, visit, "guest", failure=failure)
        return RedirectResponse(f"/machines/{monitor.name}/guest", 303)

    @router.post("/machines/{machine}/guest/access/withdraw", dependencies=CHECKED)
    async def withdraw(monitor: AHosted, visit: AVisit, access: Posted = "") -> Response:
        user, given = visit.session.identity, accesses.given.get(monitor.key)
        if given is not None and not given.may_be_withdrawn_by(user, monitor.name):
            raise SessionError(Code.SESSION_FORBIDDEN, "it is another person's access")

        async def act() -> Done:
            if given is None or given.access.id != access:
                raise ValueError("there is no such access any more")
            await accesses.broker.withdraw(given.access)
            return Done(f"Withdrew the access that {given.by} gave it.")

        if failure := await recorded(monitor.events, "withdraw its access", act):
            return await machine_page(monitor, visit, "guest", failure=failure)
        return RedirectResponse(f"/machines/{monitor.name}/guest", 303)

    router.include_router(operators)
    return router


class Apis(NamedTuple):
    """The broker's routes by name, and the APIs for which sessions get tokens."""

    routes: Mapping[str, Route]
    downstream: Sequence[DownstreamAPI]


NO_APIS: Final = Apis({}, ())
_OF_TOKEN: Final = {"grant", "audience", "resource", "scope"}


class RouteTable(BaseModel):
    """One route as the file has it: options of `Route`, and how its token is requested."""

    model_config = ConfigDict(extra="forbid")

    url: str
    allow: list[str]
    approve: list[str] = []
    audience: str | None = None
    resource: str | None = None
    scope: list[str] = []
    own_token: bool = False
    headers: list[str] = []
    networks: list[str] = []
    grant: Literal["token_exchange", "refresh_token", "on_behalf_of"] = "token_exchange"


def apis_in(path: Path) -> Apis:
    """The routes of a file in TOML, a table for each name. Raises SettingsError."""
    try:
        content = tomllib.loads(path.read_text())
        tables = TypeAdapter(dict[str, RouteTable]).validate_python(content)
        routes = {name: Route(**one.model_dump(exclude={"grant"})) for name, one in tables.items()}
        with_tokens = [one for one in tables.values() if not one.own_token]
        apis = [DownstreamAPI(**one.model_dump(include=_OF_TOKEN)) for one in with_tokens]
    except ValidationError as error:
        wrong = error.errors()[0]
        place = ".".join(str(part) for part in wrong["loc"])
        raise SettingsError(f"CONSOLE_ROUTES: {place}: {wrong['msg']}") from error
    except (OSError, ValueError, ConfigurationError) as error:
        raise SettingsError(f"CONSOLE_ROUTES: {error}") from error
    return Apis(routes, list(dict.fromkeys(apis)))
