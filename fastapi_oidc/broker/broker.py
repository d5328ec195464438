"""`Broker`: a machine calls APIs with the rights of a person, and never holds their tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Any
from weakref import WeakValueDictionary

from fastapi_oidc.broker.accesses import Accesses
from fastapi_oidc.broker.addresses import CheckedTransport, Resolve, resolved
from fastapi_oidc.broker.approvals import Approvals
from fastapi_oidc.broker.calls import OpenCalls
from fastapi_oidc.broker.guest import GuestApp, Parts
from fastapi_oidc.broker.limits import Limits, Refused
from fastapi_oidc.broker.page import approval_router
from fastapi_oidc.broker.route import Route, require_name
from fastapi_oidc.broker.rules import Access, Approval
from fastapi_oidc.broker.server import Owner, serving
from fastapi_oidc.broker.trail import announce
from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.events import EventName
from fastapi_oidc.oidc import OIDC
from fastapi_oidc.session.model import OIDCSession
from fastapi_oidc.web.misuse import require_kind


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

    def __init__(
        self,
        oidc: OIDC[Any, Any],
        routes: Mapping[str, Route],
        *,
        limits: Limits | None = None,
        resolve: Resolve = resolved,
    ) -> None:
        runtime, self.limits = oidc.runtime, limits or Limits()
        for name in routes:
            require_name(name)
        self._party, self.routes = runtime.party, dict(routes)
        self._accesses = Accesses(runtime.party)
        self._approvals = Approvals(runtime.party, self.limits)
        self.router = approval_router(oidc, self._approvals, self.limits.recent_seconds)
        self._open: WeakValueDictionary[str, OpenCalls] = WeakValueDictionary()
        self._parts = Parts(
            party=runtime.party,
            grants=runtime.engine.grants,
            accesses=self._accesses,
            approvals=self._approvals,
            limits=self.limits,
            routes=self.routes,
            transports={
                name: CheckedTransport(
                    route.named_networks, runtime.party.clock, route.verify, resolve
                )
                for name, route in routes.items()
            },
        )

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
        if unknown := set(routes) - set(self.routes) or not routes:
            explanation = f"give names of routes, not {unknown if routes else 'none'}"
            raise ConfigurationError(Code.CONFIGURATION_INVALID, explanation)
        now = self._party.clock.now()
        ends = until.timestamp() if isinstance(until, datetime) else now + until.total_seconds()
        if ends <= now or not to:
            explanation = "an access has a machine, and an end that is ahead"
            raise ConfigurationError(Code.CONFIGURATION_INVALID, explanation)
        access = await self._accesses.give(session, to, routes, int(ends))
        explanation = f"{', '.join(routes)} until {access.until}"
        announce(self._party, EventName.ACCESS_GIVEN, access, explanation)
        return access

    async def withdraw(self, access: Access) -> None:
        """End the access everywhere: the next call is refused.

        Calls under way end at once in this process, and in others within POLL_SECONDS.
        """
        require_kind("access of broker.withdraw", access, Access)
        try:
            await self._accesses.withdraw(access)
        finally:
            if (calls := self._open.get(access.id)) is not None:
                calls.cut(Refused(Code.BROKER_WITHDRAWN, "the access was withdrawn"))
        announce(self._party, EventName.ACCESS_WITHDRAWN, access, "withdrawn")

    async def given(self, session: OIDCSession[Any]) -> Sequence[Access]:
        """What the session's user has given, with its use, the oldest first."""
        require_kind("session of broker.given", session, OIDCSession)
        return await self._accesses.of(session)

    async def check(self, access: Access) -> Access:
        """The access as it is now, with its use; raises Refused when it has ended."""
        return (await self._accesses.judge(access)).access

    async def waiting(self, session: OIDCSession[Any]) -> Sequence[Approval]:
        """The calls that wait for the session's user, the oldest first."""
        require_kind("session of broker.waiting", session, OIDCSession)
        return await self._approvals.of(session)

    async def decide(
        self, session: OIDCSession[Any], id: str, fingerprint: str, *, approve: bool
    ) -> Approval:
        """Record the user's decision about the call that a page with `fingerprint` has shown.

        The pages of `broker.router` (`/approvals/{id}`) do this; an application may have its own.

        Raises SessionError (session.step_up_required) unless the user has authenticated in the last
        `recent_seconds`, and Refused (broker.not_approved) if no such call waits for this user.
        """
        require_kind("session of broker.decide", session, OIDCSession)
        return await self._approvals.decide(session, id, fingerprint, approve=approve)

    def app(self, access: Access) -> GuestApp:
        """The ASGI application for the guest of one access."""
        require_kind("access of broker.app", access, Access)
        calls = self._open.get(access.id) or OpenCalls(
            lambda: self._accesses.judge(access), self.limits
        )
        self._open[access.id] = calls
        return GuestApp(access, calls, self._parts)

    def serve(
        self, access: Access, path: str, *, owner: Owner | None = None
    ) -> AbstractAsyncContextManager[None]:
        """Serve the access on a unix socket within the block.

        The socket has mode 0600; `owner` is the user and group of a monitor that runs as another
        user. A socket that a dead process has left is replaced. Raises OSError when another process
        serves `path`.
        """
        return serving(self.app(access), path, owner)

    async def aclose(self) -> None:
        """Close the connections to the APIs."""
        for transport in self._parts.transports.values():
            await transport.aclose()
