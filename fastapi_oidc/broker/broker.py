"""`Broker`: a machine calls APIs with the rights of a person, and never holds their tokens."""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from os import PathLike, fspath
from typing import Any
from weakref import WeakValueDictionary

from fastapi_oidc.broker.access import Access, Limits, Refused
from fastapi_oidc.broker.accesses import Accesses, undecided
from fastapi_oidc.broker.connections import Resolve, resolved
from fastapi_oidc.broker.guest import GuestApp
from fastapi_oidc.broker.page import approval_router
from fastapi_oidc.broker.route import Route, require_name
from fastapi_oidc.broker.server import Owner, serving
from fastapi_oidc.errors import Code, misconfigured
from fastapi_oidc.events import EventName
from fastapi_oidc.grants.exchanges import require_exchange
from fastapi_oidc.oidc import OIDC
from fastapi_oidc.session.model import OIDCSession
from fastapi_oidc.session.revocations import keys_of
from fastapi_oidc.web.misuse import require_kind
from fastapi_oidc.web.serving import awaited_anywhere, entered


class Broker:
    """Gives machines the right to call APIs as a person, and takes it back.

        broker = Broker(oidc, routes={"calendar.internal": Route(url="https://...", ...)})
        access = await broker.give(session, to="m1", routes=["calendar.internal"], until=two_hours)
        async with broker.serve(access, path): ...
        await broker.withdraw(access)

    A guest asks for a name of `routes`; the name stands for a URL, and the calls that `allow` lists
    are sent there with a token of the person. `resolve` replaces the system's look-ups of names.
    Raises ConfigurationError, also with configuration.store_missing if sessions are in cookies:
    only a session store can end what a person has given.
    """

    noun = "broker"
    """What an application calls the object."""

    def __init__(
        self,
        oidc: OIDC[Any, Any],
        routes: Mapping[str, Route],
        *,
        limits: Limits | None = None,
        resolve: Resolve = resolved,
    ) -> None:
        require_kind("oidc of Broker", oidc, OIDC)
        require_kind("routes of Broker", routes, Mapping)
        for name, route in routes.items():
            require_kind(f"the route {name!r} of Broker", route, Route)
            require_name(name)
            api = oidc.runtime.party.api(route.target)
            if route.actor is not None and api is not None:
                require_exchange(api)
        runtime, self.limits, self.routes = oidc.runtime, limits or Limits(), dict(routes)
        self._party, self._grants = runtime.party, runtime.engine.grants
        self._accesses, self._resolve = Accesses(runtime.party), resolve
        self._guests: WeakValueDictionary[str, GuestApp] = WeakValueDictionary()
        self.router = approval_router(
            oidc,
            self._accesses,
            self.limits.recent_seconds,
            is_needed=any(route.approve for route in routes.values()),
        )

    @awaited_anywhere
    async def give(
        self,
        session: OIDCSession[Any],
        *,
        to: str,
        routes: Sequence[str],
        until: timedelta | datetime,
    ) -> Access:
        """The access of the machine `to` to these routes, as the session's user.

        It ends at `until` (a duration, or a time with its zone), at the session's absolute end, at
        its sign-out or revocation, and at `withdraw`; it replaces what the person gave this machine
        before. Raises Refused (broker.taken) while another person's access of this machine lasts,
        and SessionError.
        """
        require_kind("session of broker.give", session, OIDCSession)
        if isinstance(routes, str):
            raise TypeError(f"routes of broker.give is a list: routes=[{routes!r}]")
        require_kind("until of broker.give", until, timedelta, datetime)
        if isinstance(until, datetime) and until.tzinfo is None:
            raise TypeError("until of broker.give needs a time zone: datetime.now(UTC) + ...")
        now = self._party.clock.now()
        ends = until.timestamp() if isinstance(until, datetime) else now + until.total_seconds()
        if not to:
            raise misconfigured("to of broker.give is the name of a machine")
        if not routes or not set(routes) <= self.routes.keys():
            raise misconfigured(f"routes of broker.give are some of {[*self.routes]}")
        if ends <= now:
            raise misconfigured("until of broker.give has passed")
        asked = Access(
            id=secrets.token_urlsafe(12),
            machine=to,
            routes=tuple(routes),
            issuer=session.issuer,
            sub=session.sub,
            session_id=session.id,
            keys=keys_of(session),
            given_at=now,
            until=int(ends),
        )
        access = await self._accesses.give(asked)
        told = f"{', '.join(routes)} until {access.until}"
        self._accesses.announce(EventName.ACCESS_GIVEN, access, told)
        return access

    @awaited_anywhere
    async def withdraw(self, access: Access) -> None:
        """End the access everywhere: the next call is refused.

        Calls under way end at once in this process, and in others within POLL_SECONDS.
        """
        require_kind("access of broker.withdraw", access, Access)
        try:
            await self._accesses.withdraw(access)
        finally:
            if (guest := self._guests.get(access.id)) is not None:
                guest.calls.cut(Refused(Code.BROKER_WITHDRAWN, "the access was withdrawn"))
        self._accesses.announce(EventName.ACCESS_WITHDRAWN, access, "withdrawn")

    async def check(self, access: Access) -> Access:
        """The access as it is now, with its use; raises Refused when it has ended.

        What a call has cost is counted within a second. `waiting` has the calls about which the
        person can decide.
        """
        require_kind("access of broker.check", access, Access)
        found, _ = await self._accesses.judge(access)
        waiting = undecided(found, self._party.clock.now())
        return found.model_copy(update={"waiting": tuple(waiting)})

    async def access_of(self, machine: str) -> Access | None:
        """What the machine was given last, to serve it again; None after its end.

        The end of its session is found by `check`, and at each call.
        """
        require_kind("machine of broker.access_of", machine, str)
        return await self._accesses.of(machine)

    def app(self, access: Access) -> GuestApp:
        """The ASGI application for the guest of one access."""
        require_kind("access of broker.app", access, Access)
        if (guest := self._guests.get(access.id)) is None:
            guest = self._guests[access.id] = GuestApp(
                access, self._accesses, self._grants, self.routes, self._resolve, self.limits
            )
        return guest

    @entered
    async def serve(
        self, access: Access, path: str | PathLike[str], *, owner: Owner | None = None
    ) -> AsyncIterator[None]:
        """Serve the access on a unix socket within the block.

        The socket has mode 0600; `owner` is the user and group of a monitor that runs as another
        user. A socket that a dead process has left is replaced. Raises OSError when another process
        serves `path`, or makes a socket in its folder at the same time.
        """
        if re.fullmatch(r"[^/]*:\d+", fspath(path)):
            raise misconfigured(f"path of broker.serve is that of a unix socket, not {path}")
        app = self.app(access)
        async with aclosing(app), serving(app, fspath(path), owner):
            yield

    async def aclose(self) -> None:
        """Store what calls have cost, and close the connections to the APIs."""
        for guest in [*self._guests.values()]:
            await guest.aclose()
