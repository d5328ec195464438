"""The ASGI application of one guest: each call is judged, passed on and recorded."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
from starlette.types import Receive, Scope, Send

from fastapi_oidc.broker.accesses import Accesses, Judged
from fastapi_oidc.broker.addresses import CheckedTransport
from fastapi_oidc.broker.approvals import Approvals
from fastapi_oidc.broker.calls import OpenCalls
from fastapi_oidc.broker.forward import (
    Asked,
    Traffic,
    body_to_send,
    read_body,
    read_request,
    request_to,
    send_answer,
    send_refusal,
)
from fastapi_oidc.broker.limits import Limits, Refused
from fastapi_oidc.broker.route import Route
from fastapi_oidc.broker.rules import Access, Use
from fastapi_oidc.broker.trail import AccessEvent
from fastapi_oidc.errors import Code, OIDCError, SessionError
from fastapi_oidc.events import EventName
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.sessions import Live
from fastapi_oidc.grants import Actor, Grants, auth_of
from fastapi_oidc.grants.holders import Change
from fastapi_oidc.protocol.issued_token import MIN_VALIDITY, IssuedToken, Needed


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the applications of all guests share."""

    party: RelyingParty[Any]
    grants: Grants[Any]
    accesses: Accesses
    approvals: Approvals
    limits: Limits
    routes: Mapping[str, Route]
    transports: Mapping[str, CheckedTransport]


class GuestApp:
    """Answers the guest that has one access; the guest is known by the socket of this app."""

    def __init__(self, access: Access, calls: OpenCalls, parts: Parts) -> None:
        self._access, self._calls, self._parts = access, calls, parts
        self._routes = {name: parts.routes[name] for name in access.routes if name in parts.routes}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; an answer that has begun and cannot go on is broken off."""
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        if scope["type"] != "http":
            return
        call = _Call(scope, self._routes)
        try:
            await self._answer(call, receive, send)
        finally:
            try:
                # After the bound of the call, whose end would leave the API's connection open.
                await call.aclose()
            finally:
                await self._record(call)

    async def _answer(self, call: _Call, receive: Receive, send: Send) -> None:
        try:
            async with self._calls.opened():
                await self._pass_on(call, receive, send)
        except (OIDCError, httpx.HTTPError, httpx.InvalidURL) as error:
            if not call.traffic.is_whole:  # else the guest has it all, and has perhaps caused this
                call.failed = _as_refusal(error)
                if call.traffic.status:
                    raise call.failed from None  # the server closes the connection
                await send_refusal(call.failed, send, call.traffic)
        if call.traffic.is_whole:
            await send({"type": "http.response.body", "body": b""})

    async def _pass_on(self, call: _Call, receive: Receive, send: Send) -> None:
        judged = await self._parts.accesses.judge(self._access)
        call.is_counted = True
        if judged.access.use.calls + len(self._calls) > self._parts.limits.calls:
            raise Refused(Code.BROKER_USED_UP, f"{self._parts.limits.calls} calls")
        asked = call.read()
        if asked.route.needs_approval(asked.method, asked.path):
            body: Any = await self._approved(asked, receive, call.traffic)
            judged = await self._parts.accesses.judge(self._access)
        else:
            body = await body_to_send(asked, receive, self._parts.limits, call.traffic)
        transport, auth = self._parts.transports[asked.name], self._auth(asked.route, judged)
        call.answer = await transport.send(request_to(asked, body), auth)
        await send_answer(call.answer, send, self._parts.limits, call.traffic)

    async def _approved(self, asked: Asked, receive: Receive, traffic: Traffic) -> bytes:
        """The body, when the person has approved the call with it."""
        parts = self._parts
        body = await read_body(asked, receive, parts.limits.approved_bytes)
        approval = await parts.approvals.ask(self._access, asked, body)
        await parts.approvals.decision(approval)
        traffic.sent += len(body)
        return body

    def _auth(self, route: Route, judged: Judged) -> httpx.Auth:
        """The authentication of the call, by the one path to a session's tokens."""
        if route.auth is not None:
            return route.auth
        grants, holder = self._parts.grants, _Holder(self._parts, judged)
        api = self._parts.party.api(route.target)
        actor = Actor(self._access.id, partial(route.actor, self._access)) if route.actor else None

        async def tokens(needed: Needed) -> IssuedToken:
            token = await grants.token(judged.live.id, holder, api, needed, actor)
            if holder.was_asked_again:  # the provider was asked, and that takes its time
                await self._parts.accesses.judge(self._access)
            return token

        return auth_of(tokens, MIN_VALIDITY, grants.proofs)

    async def _record(self, call: _Call) -> None:
        """Announce the call and, for a guest whose access had not ended, count it."""
        traffic, now = call.traffic, self._parts.party.clock.now()
        self._parts.party.announcer(call.event(self._access, now))
        if call.is_counted:
            with suppress(SessionError):  # the next call finds the store down, too
                cost = Use(1, traffic.sent, traffic.received, now)
                await self._parts.accesses.count(self._access, cost)


class _Call:
    """One call, as far as it has come."""

    def __init__(self, scope: Scope, routes: Mapping[str, Route]) -> None:
        self._scope, self._routes, self._began = scope, routes, time.perf_counter()
        self._asked: Asked | None = None
        self.traffic, self.is_counted = Traffic(), False
        self.answer: httpx.Response | None = None
        self.failed: OIDCError | None = None

    def read(self) -> Asked:
        """See `read_request`."""
        self._asked = read_request(self._scope, self._routes)
        return self._asked

    async def aclose(self) -> None:
        """Give the API's connection back, or close it if its answer has not been read."""
        if self.answer is not None:
            await self.answer.aclose()

    def event(self, access: Access, at: int) -> AccessEvent:
        """The line of the trail."""
        asked, traffic, seconds = self._asked, self.traffic, time.perf_counter() - self._began
        where = f"{asked.method} {asked.name}{asked.path}" if asked else "unreadable request"
        return AccessEvent(
            EventName.ACCESS_CALLED,
            at,
            sub=access.sub,
            session_id=access.session_id,
            code=self.failed.code if self.failed else None,
            explanation=f"{access.machine}: {where} {traffic.status}, {traffic.sent} B sent, "
            f"{traffic.received} B received, {1000 * seconds:.1f} ms",
            machine=access.machine,
            access_id=access.id,
            route=asked.name if asked else "",
            method=asked.method if asked else "",
            path=asked.path if asked else "",
            status=traffic.status,
            sent=traffic.sent,
            received=traffic.received,
            seconds=seconds,
        )


class _Holder:
    """The session of an access; it is asked for without its browser's idle timeout."""

    def __init__(self, parts: Parts, judged: Judged) -> None:
        self.party, self._accesses, self._access = parts.party, parts.accesses, judged.access
        self._judged: Live[Any] | None = judged.live
        self.was_asked_again = False

    async def current(self) -> Live[Any]:
        """See `Holder`. The first answer is what the call was judged by."""
        live, self._judged = self._judged, None
        if live is not None:
            return live
        self.was_asked_again = True
        return await self._accesses.live(self._access.session_id, self._access.keys)

    async def change(self, change: Change[Any]) -> Live[Any]:
        """See `Holder`."""
        self.was_asked_again = True
        return await change(await self.current())


def _as_refusal(error: Exception) -> OIDCError:
    """The error that a guest gets; it has nothing of the provider's or the API's text."""
    if isinstance(error, SessionError) and not isinstance(error, Refused) and not error.is_outage:
        return Refused(Code.BROKER_SIGNED_OUT, str(error))
    if isinstance(error, OIDCError):
        return error
    return Refused(Code.BROKER_UNREACHABLE, type(error).__name__)
