"""`Broker`: machines call APIs with the rights of a person; and the page on which they approve."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta
from html import escape
from os import PathLike, fspath
from typing import Any, Final
from weakref import WeakValueDictionary

from fastapi import APIRouter, Depends
from fastapi.responses import HTMLResponse

from fastapi_oidc.broker.access import Access, Accesses, Approval, Limits, Refused, digest
from fastapi_oidc.broker.guest import GuestApp
from fastapi_oidc.broker.route import Api, Route
from fastapi_oidc.broker.server import serving
from fastapi_oidc.errors import Code, misconfigured
from fastapi_oidc.events import EventName
from fastapi_oidc.grants.exchanges import require_exchange
from fastapi_oidc.oidc import OIDC
from fastapi_oidc.session.model import OIDCSession
from fastapi_oidc.session.revocations import keys_of
from fastapi_oidc.web.misuse import Awaited, require_kind
from fastapi_oidc.web.pages import document
from fastapi_oidc.web.runtime import CSRF_FIELD

_NO_PAGE: Final = "Nobody can approve calls. Add the line: app.include_router(broker.router)"


class Broker(Awaited):
    """Gives machines the right to call APIs as a person, and takes it back.

        broker = Broker(oidc, routes={"calendar.internal": Route("https://...", ...)})
        access = await broker.give(session, to="m1", routes=["calendar.internal"], until=two_hours)
        async with broker.serve(access, path): ...
        await broker.withdraw(access)

    A guest asks for a name of `routes`, in lower case; the name stands for a URL, and the calls
    that `allow` lists are sent there with a token of the person. `router` has the page on which
    the person approves calls. Raises ConfigurationError, also with configuration.store_missing if
    sessions are in cookies: only a session store can end what a person has given.
    """

    noun = "broker"
    """What an application calls the object."""

    def __init__(
        self, oidc: OIDC[Any, Any], routes: Mapping[str, Route], *, limits: Limits | None = None
    ) -> None:
        self.limits, self.routes = limits or Limits(), dict(routes)
        for route in self.routes.values():
            require_kind("each of the routes of a Broker", route, Route)
            if route.approve:
                oidc.runtime.engine.needed["broker_approval"] = _NO_PAGE
            api = oidc.runtime.party.api(route.target)
            if route.actor is not None:
                require_exchange(api)
        self._accesses = Accesses(oidc)
        self._guests: WeakValueDictionary[str, GuestApp] = WeakValueDictionary()
        self.router = _approval_router(oidc, self._accesses, self.limits.recent_seconds)

    async def give(
        self, session: OIDCSession[Any], *, to: str, routes: Sequence[str], until: timedelta
    ) -> Access:
        """The access of the machine `to` to these routes, as the session's user.

        It ends after `until`, at the session's absolute end, at its sign-out or revocation, and at
        `withdraw`; it replaces what the person gave this machine before. Raises Refused
        (broker.taken) while another person's access of this machine lasts, and SessionError.
        """
        require_kind("session of broker.give", session, OIDCSession)
        require_kind("until of broker.give", until, timedelta)
        if not routes or not set(routes) <= self.routes.keys():
            raise misconfigured(f"routes of broker.give are some of {[*self.routes]}")
        asked = Access(
            id=secrets.token_urlsafe(12),
            machine=to,
            routes=tuple(routes),
            issuer=session.issuer,
            sub=session.sub,
            session_id=session.id,
            keys=keys_of(session),
            until=self._accesses.party.clock.now() + int(until.total_seconds()),
        )
        access = await self._accesses.give(asked)
        told = f"{', '.join(routes)} until {access.until}"
        self._accesses.announce(EventName.ACCESS_GIVEN, access, told)
        return access

    async def withdraw(self, access: Access) -> None:
        """End the access everywhere: the next call is refused.

        Calls under way end at once in this process, and in others within POLL_SECONDS.
        """
        try:
            await self._accesses.change(access, Access.withdrawn)
        finally:
            if (guest := self._guests.get(access.id)) is not None:
                guest.cut(Refused(Code.BROKER_WITHDRAWN, "the access was withdrawn"))
        self._accesses.announce(EventName.ACCESS_WITHDRAWN, access, "withdrawn")

    async def check(self, access: Access) -> Access:
        """The access as it is now, with its use; raises Refused when it has ended.

        What a call has cost is counted within a second. `waiting` has the calls about which the
        person can decide.
        """
        return (await self._accesses.judge(access))[0]

    async def access_of(self, machine: str) -> Access | None:
        """What the machine was given last, to serve it again; None after its end.

        The end of its session is found by `check`, and at each call.
        """
        return await self._accesses.of(digest(machine))

    def app(self, access: Access) -> GuestApp:
        """The ASGI application for the guest of one access; its `aclose` stores what calls cost."""
        apis = {name: Api(self.routes[name]) for name in access.routes if name in self.routes}
        guest = GuestApp(access, self._accesses, apis, self.limits)
        return self._guests.setdefault(access.id, guest)

    @asynccontextmanager
    async def serve(
        self, access: Access, path: str | PathLike[str], *, owner: tuple[int, int] | None = None
    ) -> AsyncIterator[None]:
        """Serve the access on a unix socket within the block.

        The socket has mode 0600; `owner` is the user and group of a monitor that runs as another
        user. It replaces a socket that another process has left, or still serves.
        """
        app = self.app(access)
        async with aclosing(app), serving(app, fspath(path), owner):
            yield


def _approval_router(oidc: OIDC[Any, Any], accesses: Accesses, recent_seconds: int) -> APIRouter:
    """`/approvals/{id}`, for users who have authenticated recently."""
    router = APIRouter(include_in_schema=False)
    recently = Depends(oidc.require_recent(recent_seconds))

    @router.get("/approvals/{id}", name="broker_approval")
    async def show(id: str, session: OIDCSession[Any] = recently) -> HTMLResponse:
        access, asked = await accesses.asked(session, id)
        csrf = f'<input type="hidden" name="{CSRF_FIELD}" value="{oidc.csrf_token(session)}">'
        form = (
            f'<form method="post">{csrf}<button formaction="?approve=true">Approve</button> '
            '<button formaction="?approve=false">Refuse</button></form>'
        )
        return document("Approve a call", _shown(access, asked) + form)

    @router.post("/approvals/{id}", dependencies=[Depends(oidc.require_csrf)])
    async def decide(id: str, approve: bool, session: OIDCSession[Any] = recently) -> HTMLResponse:
        access, asked = await accesses.asked(session, id)
        after, told = ([asked.approved()], "approved") if approve else ([], "refused")
        await accesses.change(access, lambda found: found.decided(asked, *after))
        await accesses.judge(access)  # one that has ended meanwhile is not changed
        accesses.announce(EventName.ACCESS_APPROVAL_DECIDED, access, told, **asked.facts())
        return document(told.capitalize(), "<p>You can close this page.</p>")

    return router


def _shown(access: Access, asked: Approval) -> str:
    """What would be sent, with escapes for all but ASCII: others may hide, or look like another."""
    headers = "".join(f"{name}: {text}\n" for name, text in asked.headers)
    body = asked.body.decode("utf-8", "backslashreplace")
    text = (
        f"{access.machine} wants to send this as you, with a body of {len(asked.body)} bytes:\n\n"
        f"{asked.method} {asked.url}\n{headers}\n{body}"
    )
    return f"<pre>{escape(text.encode('ascii', 'backslashreplace').decode())}</pre>"
