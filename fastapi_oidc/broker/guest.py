"""The ASGI application of one guest: each call is judged, passed on and recorded."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from contextlib import aclosing, suppress
from functools import partial
from typing import Final

import httpx
from anyio import CancelScope, move_on_after
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from fastapi_oidc.broker.access import Access, Approval, Asked, Limits, Refused, Use
from fastapi_oidc.broker.accesses import Accesses, copy_of, require_live
from fastapi_oidc.broker.calls import OpenCalls
from fastapi_oidc.broker.connections import Connections, Resolve
from fastapi_oidc.broker.forward import Call, guest_left
from fastapi_oidc.broker.route import Route
from fastapi_oidc.errors import Code, OIDCError, SessionError
from fastapi_oidc.events import EventName
from fastapi_oidc.flows.sessions import Live
from fastapi_oidc.grants import Actor, Detached, Grants, auth_of
from fastapi_oidc.grants.exchanges import own_token
from fastapi_oidc.protocol.downstream import MIN_VALIDITY, IssuedToken, Needed

LOOK_SECONDS: Final = 0.5
"""Seconds between two looks for the person's decision, which any process may record."""


class GuestApp:
    """Answers the guest that has one access; the guest is known by the socket of this app.

    A process has one for each access.
    """

    def __init__(
        self,
        access: Access,
        accesses: Accesses,
        grants: Grants,
        routes: Mapping[str, Route],
        resolve: Resolve,
        limits: Limits,
    ) -> None:
        self._access, self._accesses, self._grants = access, accesses, grants
        self._routes = {name: routes[name] for name in access.routes if name in routes}
        self._connections = {n: Connections(to, resolve) for n, to in self._routes.items()}
        self._limits, self._party = limits, accesses.party
        self._tokens: dict[str, IssuedToken] = {}
        self._server = secrets.token_urlsafe(6)
        record = partial(accesses.record, access, self._server)
        self.calls = OpenCalls(limits, self._judge, record)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. An answer that has begun and cannot go on stays without its end."""
        if scope["type"] != "http":
            return
        call = Call(scope, receive, send)
        try:
            async with self.calls.opened() as call.cut:
                await self._pass_on(call)
        except (OIDCError, ClientDisconnect, httpx.HTTPError, httpx.StreamError) as error:
            call.error = _as_refusal(error)
            if not call.status:
                with move_on_after(self._limits.seconds):
                    await call.refuse(call.error)
        finally:
            call.end()
            self._record(call)

    async def aclose(self) -> None:
        """Store what calls have cost, and close the connections to the APIs."""
        with CancelScope(shield=True):
            with suppress(SessionError):
                await self.calls.record()
            for connections in self._connections.values():
                await connections.aclose()

    async def _pass_on(self, call: Call) -> None:
        limits, asked = self._limits, call.read(self._routes)
        route = self._routes[asked.name]
        if route.needs_approval(asked.method, asked.path):
            whole = await call.whole(limits.approved_bytes)
            await self._require_more()
            await self._approved(asked, whole)
            request = call.request_to(asked, whole)
        else:
            request = call.request_to(asked, await call.body(limits.request_bytes))
        live = await self._require_more()  # last: a guest may send its body slowly
        token = partial(self._token, asked.name, live)  # the one path to a session's tokens
        proofs = self._grants.proofs
        # The route has judged its URL.
        auth = route.auth or auth_of(token, MIN_VALIDITY, proofs, is_insecure_allowed=True)
        answer = await self._connections[asked.name].send(request, auth)
        async with aclosing(answer):
            await call.answer(answer, limits.answer_bytes)

    async def _judge(self) -> tuple[Access, Live]:
        return await self._accesses.judge(self._access)

    async def _require_more(self) -> Live:
        """The session of the access; raises Refused when it has no more calls, or has ended."""
        access, live = await self._judge()
        self.calls.require_more(access.use_beside(self._server))
        return live

    async def _approved(self, asked: Asked, body: bytes) -> None:
        """Return when the person has approved the call with this body; raises Refused."""
        seconds, loop = self._limits.approval_seconds, asyncio.get_running_loop()
        ends = loop.time() + seconds
        approval = self._accesses.approval_of(self._access, asked, body, int(seconds))
        told = f"{asked.method} {asked.name}{asked.path} waits"
        found: Approval | None = approval
        try:
            await self._accesses.ask(self._access, approval)
            name = EventName.ACCESS_APPROVAL_ASKED
            self._accesses.announce(name, self._access, told, **approval.facts)
            while found is not None and not found.decision and loop.time() < ends:
                await asyncio.sleep(LOOK_SECONDS)
                access, _ = await self._judge()
                found = next((each for each in access.waiting if each.id == approval.id), None)
        finally:  # a guest that leaves while it is asked for may be stored as waiting
            with CancelScope(shield=True):
                await self._accesses.forget(self._access, approval)
        if found is None or not found.is_approved:
            raise Refused(Code.BROKER_NOT_APPROVED, "refused, or not approved in time")

    async def _token(self, name: str, live: Live, needed: Needed) -> IssuedToken:
        route = self._routes[name]
        api, actor = self._party.api(route.target), route.actor
        known = self._tokens.get(name) if api else own_token(live.session)
        if known is not None and needed.is_met_by(known, self._party.clock.now()):
            return known
        holder = _Holder(self._party, copy_of(self._access))
        acting = Actor(self._access.id, partial(actor, self._access)) if actor else None
        token = await self._grants.token(live.id, holder, api, needed, acting)
        await self._judge()  # the provider may have been asked, and that takes its time
        self._tokens[name] = token
        return token

    def _record(self, call: Call) -> None:
        """Announce a call, and count it."""
        self.calls.count(Use(1, call.sent, call.received, self._party.clock.now()))
        code, facts = call.error.code if call.error else None, call.facts()
        told = ", ".join(f"{name} {value}" for name, value in facts.items())
        self._accesses.announce(EventName.ACCESS_CALLED, self._access, told, code=code, **facts)


class _Holder(Detached):
    """The session of an access; it is asked for without its browser's idle timeout.

    A request for a token may be shared with the person's own, which the end of the access must not
    fail: only the session is judged here.
    """

    async def current(self) -> Live:
        """See `Holder`."""
        return require_live(self.party, await self.party.sessions.judge(self._copy))


def _as_refusal(error: Exception) -> OIDCError:
    """The error that a guest gets; it has nothing of the provider's or the API's text."""
    if isinstance(error, SessionError) and not isinstance(error, Refused) and not error.is_outage:
        return Refused(Code.BROKER_SIGNED_OUT, str(error))
    if isinstance(error, OIDCError):
        return error
    if isinstance(error, ClientDisconnect):
        return guest_left()
    return Refused(Code.BROKER_UNREACHABLE, type(error).__name__)
