"""The ASGI application of one guest: each call is judged, passed on and recorded."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from operator import neg
from typing import Final

import httpx
from anyio import CancelScope
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from fastapi_oidc.broker.access import Access, Approval, Refused, Use
from fastapi_oidc.broker.accesses import Accesses, copy_of, new_id
from fastapi_oidc.broker.calls import Call
from fastapi_oidc.broker.connections import Connections
from fastapi_oidc.concurrency import SingleFlight
from fastapi_oidc.errors import Code, OIDCError, SessionError
from fastapi_oidc.events import EventName
from fastapi_oidc.flows.sessions import Live
from fastapi_oidc.grants import Actor, Detached, auth_of
from fastapi_oidc.grants.exchanges import own_token
from fastapi_oidc.protocol.downstream import MIN_VALIDITY, IssuedToken, Needed

POLL_SECONDS: Final = 1.0
"""Seconds between two looks at the access of calls under way: the longest time for which a call
goes on after another process has withdrawn the access or ended the session. The second look after a
guest has left ends its call.
"""

STORE_SECONDS: Final = 5.0
"""Seconds after which a store that does not respond ends the calls under way."""

ASKED: Final = EventName.ACCESS_APPROVAL_ASKED

LOOK_SECONDS: Final = 0.5
"""Seconds between two looks for the person's decision."""


class GuestApp:
    """Answers the guest that has one access; the guest is known by the socket of this app.

    A process has one for each access. It bounds the calls, counts what they cost, and cuts them
    when the access has ended or is not known to last.
    """

    def __init__(self, access: Access, accesses: Accesses) -> None:
        self._access, self._accesses, self._limits = access, accesses, accesses.limits
        routes = accesses.routes
        self._routes = {name: routes[name] for name in access.routes if name in routes}
        self._connections = {name: Connections(to) for name, to in self._routes.items()}
        self._tokens: dict[str, IssuedToken] = {}
        self._open, self._cost, self._recording = set[Call](), Use(), asyncio.Lock()
        self._watch: SingleFlight[None, None] = SingleFlight()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. An answer that has begun and cannot go on stays without its end."""
        if scope["type"] != "http":
            return
        call, limits = Call(scope, receive, send, self._limits.seconds), self._limits
        try:
            if len(self._open) >= limits.concurrent:
                raise Refused(Code.BROKER_BUSY, f"{limits.concurrent} calls are under way")
            self._open.add(call)
            self._watch.start(None, self._watch_calls)
            with call.bound:
                await self._pass_on(call)
            if call.bound.cancelled_caught:
                raise call.reason
        except (OIDCError, ClientDisconnect, httpx.HTTPError, httpx.StreamError) as error:
            call.error = _as_refusal(error)
            if not call.status:
                await call.refuse(call.error)
        except asyncio.CancelledError:
            call.error = Refused(Code.BROKER_WITHDRAWN, "the access is served no more")
            raise
        finally:
            call.end()
            self._open.discard(call)
            self._cost = self._cost.plus(Use(1, **call.bytes))
            self._watch.start(None, self._watch_calls)  # the one before may have failed
            self._announce(call)

    def cut(self, because: SessionError) -> None:
        """End all calls under way."""
        for call in self._open:
            call.cut(because)

    async def aclose(self) -> None:
        """Store what calls have cost, and close the connections to the APIs."""
        with CancelScope(shield=True), suppress(SessionError):
            for connections in self._connections.values():
                await connections.aclose()
            await self._record()

    async def _pass_on(self, call: Call) -> None:
        limits, route = self._limits, call.read(self._routes)
        name, method, path = call.where.values()
        waits = route.approved.fullmatch(f"{method} {path}")
        most = limits.approved_bytes if waits else limits.request_bytes
        request = await call.request_to(route, most)
        if waits:
            await request.aread()
            await self._require_more()
            await self._approved(call, request)
        live = await self._require_more()  # last: a guest may send its body slowly
        token = partial(self._token, name, live)  # the one path to a session's tokens
        proofs = self._accesses.grants.proofs
        # The route has judged its URL.
        auth = route.auth or auth_of(token, MIN_VALIDITY, proofs, is_insecure_allowed=True)
        async with self._connections[name].answer(request, auth) as answer:
            await call.pass_on(answer, limits.answer_bytes)

    async def _judge(self) -> tuple[Access, Live]:
        return await self._accesses.judge(self._access)

    async def _require_more(self) -> Live:
        """The session of the access; raises Refused when it has no more calls, or has ended."""
        access, live = await self._judge()
        if access.use.calls + self._cost.calls + len(self._open) > self._limits.calls:
            raise Refused(Code.BROKER_USED_UP, f"{self._limits.calls} calls")
        return live

    async def _approved(self, call: Call, request: httpx.Request) -> None:
        """Return when the person has approved the request; raises Refused."""
        accesses, access, id = self._accesses, self._access, new_id(self._access.machine)
        until = accesses.party.clock.now() + int(self._limits.approval_seconds)
        headers, body = tuple(request.headers.multi_items()), request.content
        what = call.where | {"url": str(request.url), "headers": headers, "body": body}
        waiting = Approval(id=id, until=until, **what)
        try:
            await accesses.change(access, lambda found: found.settled(id, waiting))
            accesses.announce(ASKED, access, f"{waiting} waits", approval=id, **call.where)
            while id not in (found := (await self._judge())[0]).approved:
                if all(each.id != id for each in found.waiting):
                    raise Refused(Code.BROKER_NOT_APPROVED, "refused, or not approved in time")
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            with CancelScope(shield=True):
                await accesses.change(access, lambda found: found.settled(id))

    async def _token(self, name: str, live: Live, needed: Needed) -> IssuedToken:
        party, actor = self._accesses.party, self._routes[name].actor
        api = party.api(self._routes[name].target)
        known = self._tokens.get(name) if api else own_token(live.session)
        if known is not None and needed.is_met_by(known, party.clock.now()):
            return known
        # A request for a token may be shared with the person's own, which the end of the access
        # must not fail: only the session is judged here.
        holder = Detached(party, copy_of(self._access), may_be_idle=True)
        acting = Actor(self._access.id, partial(actor, self._access)) if actor else None
        token = await self._accesses.grants.token(live.id, holder, api, needed, acting)
        await self._judge()  # the provider may have been asked, and that takes its time
        self._tokens[name] = token
        return token

    def _announce(self, call: Call) -> None:
        code, facts = call.error.code if call.error else None, call.facts()
        told = ", ".join(f"{name} {value}" for name, value in facts.items())
        self._accesses.announce(EventName.ACCESS_CALLED, self._access, told, code=code, **facts)

    async def _record(self) -> None:
        """Store the costs that are not stored, which count here until then; raises SessionError."""
        async with self._recording:  # the watch and the end of the app would count calls twice
            if (cost := self._cost).calls:
                await self._accesses.change(self._access, lambda found: found.costing(cost))
                self._cost = self._cost.plus(Use(*map(neg, cost)))

    async def _watch_calls(self) -> None:
        """Judge the access while calls are under way, and store what they cost."""
        error = SessionError(Code.SESSION_STORE_UNAVAILABLE, "the access is not known to last")
        try:
            while self._open or self._cost.calls:
                await asyncio.sleep(POLL_SECONDS)
                async with asyncio.timeout(STORE_SECONDS):
                    await self._record()
                    await self._judge()
                for call in [*self._open]:
                    call.look()
        except SessionError as failed:
            error = failed
        finally:  # whatever has ended the watch, no call goes on without it
            self.cut(error)


def _as_refusal(error: Exception) -> OIDCError:
    """The error that a guest gets; it has nothing of the provider's or the API's text."""
    if isinstance(error, SessionError) and not isinstance(error, Refused) and not error.is_outage:
        return Refused(Code.BROKER_SIGNED_OUT, str(error))
    if isinstance(error, OIDCError):
        return error
    code = Code.BROKER_REQUEST if isinstance(error, ClientDisconnect) else Code.BROKER_UNREACHABLE
    return Refused(code, type(error).__name__)
