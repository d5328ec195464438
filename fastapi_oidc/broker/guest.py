"""The ASGI application of one guest, and the life of a call: judged, passed on and recorded."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeAlias

import httpx
from anyio import CancelScope, move_on_after
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from fastapi_oidc.broker.access import Access, Accesses, Approval, Judged, Limits, Refused, Use
from fastapi_oidc.broker.route import Api, end_to_end, normalised, query_of
from fastapi_oidc.concurrency import SingleFlight
from fastapi_oidc.errors import Code, OIDCError, SessionError
from fastapi_oidc.events import EventName
from fastapi_oidc.flows.sessions import Live
from fastapi_oidc.grants import Actor, Detached, auth_of
from fastapi_oidc.grants.exchanges import own_token
from fastapi_oidc.protocol.downstream import MIN_VALIDITY, IssuedToken, Needed

Apis: TypeAlias = Mapping[str, Api]
"""The APIs that one guest may call, by the names of their routes."""

POLL_SECONDS: Final = 1.0
"""Seconds between two looks at the access of calls under way and at their guest: the longest time
for which a call goes on after another process has withdrawn the access or ended the session, or
waits after its person has approved it.
"""

SILENT_SECONDS: Final = 5.0
"""Seconds for which a call waits for the store, or for a guest to read its refusal."""

CONNECT_SECONDS: Final = 10.0
"""Seconds for a connection to an address."""

SMALL_BODY: Final = 64 * 1024
"""Bytes up to which a body is read before it is sent, so that it can be sent again with a nonce."""

MOST_ASKED: Final = 8 * 1024
"""Bytes of a method, path and query, judged before all else is."""

HAS_LEFT: Final = "has_left"
"""What a server puts into the state of a scope: a function that says whether the guest has left."""

_TARGET: Final = re.compile(rb"(?:http://([^/]*))?(.*)")
"""A path, for a proxy with the host before it (RFC 9112 3.2.2)."""


class Call:
    """One call, as far as it has come, of `seconds` at most.

    `told` has the members of its event: `status` is that of the answer to the guest, 0 before it
    begins, and the bytes are those of its body and its answer so far. `error` is why it has no
    whole answer of the API.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, seconds: float) -> None:
        self._request, self._send = Request(scope, receive, send), send
        self.has_left = scope.get("state", {}).get(HAS_LEFT, lambda: False)
        self.told = dict[str, Any](route="", method="", path="", status=0, sent=0, received=0)
        self.began, self.bound = time.perf_counter(), move_on_after(seconds)
        self.reason: SessionError = Refused(Code.BROKER_TIMEOUT, "the call took too long")
        self.error: OIDCError | None = None

    def cut(self, because: SessionError) -> None:
        """End the call."""
        self.reason = because
        self.bound.cancel()

    def read(self, apis: Apis) -> Api:
        """The API that the guest asks for; raises Refused unless its route plainly allows the call.

        The guest's `Host` selects a route, and is never a destination.
        """
        scope, method = self._request.scope, self._request.method
        raw_path, query = scope["raw_path"], scope["query_string"]
        if scope["http_version"] == "1.0":  # it ends an answer as a cut one ends (RFC 9112 6.3)
            raise Refused(Code.BROKER_VERSION, "the request is HTTP/1.0")
        if len(method) + len(raw_path) + len(query) > MOST_ASKED:
            raise Refused(Code.BROKER_REQUEST, "the method, path and query are too long")
        host, target = _TARGET.fullmatch(raw_path).groups()  # type: ignore[union-attr]
        named = self._request.headers.get("host", "") if host is None else host.decode("latin-1")
        name = named.partition(":")[0].lower()
        if name not in apis:
            raise Refused(Code.BROKER_NAME, "the access has no route of this name")
        self.told |= {"route": name, "method": method}
        route, path = apis[name].route, normalised(target)
        self.told["path"], what = path, f"{method} {path}"
        if not route.allowed.fullmatch(what):
            raise Refused(Code.BROKER_NOT_ALLOWED, f"the route allows no {method} of this path")
        self.waits = route.approved.fullmatch(what) is not None
        self._url = f"{route.url}{path}{query_of(query)}"
        return apis[name]

    async def request_to(self, api: Api, most: int) -> httpx.Request:
        """The request to the API, with a body of `most` bytes, which is not read if it is large.

        Its framing is our own: a length, or chunks (RFC 9112 6). Raises Refused, ClientDisconnect.
        """
        given = self._request.headers
        headers = [pair for pair in end_to_end(given.raw) if pair[0] in api.route.passed]
        body: Any = (self._counted("sent", part, most) async for part in self._request.stream())
        if "transfer-encoding" not in given:  # else chunks override a length (RFC 9112 6.3)
            length = int(given.get("content-length", 0))
            _require_at_most(most, length)
            if length > SMALL_BODY:
                headers.append((b"content-length", str(length).encode()))
            else:
                body = b"".join([part async for part in body])
        method, timeout = self.told["method"], {"timeout": {"connect": CONNECT_SECONDS}}
        # The class itself, not `client.build_request`, which would add what the client has.
        return httpx.Request(method, self._url, headers=headers, content=body, extensions=timeout)

    async def pass_on(self, answer: httpx.Response, most: int) -> None:
        """Stream the API's answer to the guest, without headers that have the token.

        Raises Refused.
        """
        has_two = {"content-length", "transfer-encoding"} <= {*answer.headers}
        if not 200 <= answer.status_code < 600 or has_two:
            raise Refused(Code.BROKER_UNREACHABLE, "the answer has another status, or two framings")
        token = answer.request.headers.get("authorization", "").rpartition(" ")[2].encode()
        headers = end_to_end(answer.headers.raw)
        headers = [pair for pair in headers if not (token and token in pair[1])]
        status = self.told["status"] = answer.status_code
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        stream: Any = answer.stream
        async for part in stream:
            body = self._counted("received", part, most)
            await self._send({"type": "http.response.body", "body": body, "more_body": True})
        await self._send({"type": "http.response.body"})

    async def refuse(self, error: OIDCError) -> None:
        """Answer with a sentence and the stable code, for a program or its author."""
        headers = {"Cache-Control": "no-store", "Connection": "close"}  # a body may be unread
        status = self.told["status"] = int(error.status)
        answer = PlainTextResponse(f"{error.code}: {error.public_text}\n", status, headers)
        with suppress(OSError), move_on_after(SILENT_SECONDS):
            await answer(self._request.scope, self._request.receive, self._send)

    def _counted(self, what: str, part: bytes, most: int) -> bytes:
        self.told[what] += len(part)
        _require_at_most(most, self.told[what])
        return part


class GuestApp:
    """Answers the guest that has one access; the guest is known by the socket of this app.

    A process has one for each access. It bounds the calls, counts what they cost, and cuts them
    when the access has ended or is not known to last.
    """

    def __init__(self, access: Access, accesses: Accesses, apis: Apis, limits: Limits) -> None:
        self._access, self._accesses, self._apis, self._limits = access, accesses, apis, limits
        self._open, self._cost, self._recording = set[Call](), Use(), asyncio.Lock()
        self._watch: SingleFlight[None, None] = SingleFlight()
        self._known: Judged | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. An answer that has begun and cannot go on stays without its end."""
        call = Call(scope, receive, send, self._limits.seconds)
        self._open.add(call)
        self._watch.start(None, self._watch_calls)
        try:
            if len(self._open) > self._limits.concurrent:
                raise Refused(Code.BROKER_BUSY, f"{self._limits.concurrent} calls are under way")
            with call.bound:
                await self._pass_on(call)
            if call.bound.cancelled_caught:
                raise call.reason
        except (OIDCError, ClientDisconnect, OSError, httpx.HTTPError, httpx.StreamError) as error:
            call.error = _as_refusal(error)
            if not call.told["status"]:
                await call.refuse(call.error)
        except asyncio.CancelledError:
            call.error = Refused(Code.BROKER_WITHDRAWN, "the access is served no more")
            raise
        finally:
            self._open.discard(call)
            self._record(call)

    def cut(self, because: SessionError) -> None:
        """End all calls under way."""
        for call in self._open:
            call.cut(because)

    async def aclose(self) -> None:
        """Store what calls have cost, and close the connections to the APIs."""
        with CancelScope(shield=True), suppress(SessionError):
            for api in self._apis.values():
                await api.aclose()
            await self._store_cost()

    async def _pass_on(self, call: Call) -> None:
        """The life of a call; raises what ends it before the end of its answer."""
        api, limits = call.read(self._apis), self._limits
        most = limits.approved_bytes if call.waits else limits.request_bytes
        request = await call.request_to(api, most)
        if call.waits:
            await request.aread()
            await self._require_more()
            await self._approved(call, request)
        live = await self._require_more()  # last: a guest may send its body slowly
        token, proofs = partial(self._token, api, live), self._accesses.grants.proofs
        # The route has judged its URL.
        auth = api.route.auth or auth_of(token, MIN_VALIDITY, proofs, is_insecure_allowed=True)
        await api.send(request, auth, partial(call.pass_on, most=limits.answer_bytes))

    async def _judge(self) -> Judged:
        self._known = await self._accesses.judge(self._access, self._known)
        return self._known

    async def _require_more(self) -> Live:
        """The session of the access; raises Refused when it has no more calls, or has ended."""
        here = self._cost.calls + len(self._open)  # before the look, which may miss what is stored
        access, live, _ = await self._judge()
        if access.use.calls + here > self._limits.calls:
            raise Refused(Code.BROKER_USED_UP, f"{self._limits.calls} calls")
        return live

    async def _approved(self, call: Call, request: httpx.Request) -> None:
        """Return when the person has approved the request; raises Refused."""
        accesses, access, id = self._accesses, self._access, self._access.new_id()
        headers, body = tuple(request.headers.multi_items()), request.content
        asked = Approval(id=id, url=str(request.url), headers=headers, body=body, **call.told)
        try:
            await accesses.change(access, lambda found: found.settled(id, asked))
            accesses.announce(EventName.ACCESS_APPROVAL_ASKED, access, "waits", **asked.facts())
            while asked in (found := (await self._judge())[0]).waiting:  # noqa: ASYNC110 - others
                await asyncio.sleep(POLL_SECONDS)
            if asked.approved() not in found.waiting:
                raise Refused(Code.BROKER_NOT_APPROVED, "the person has refused it")
        finally:
            with CancelScope(shield=True):
                await accesses.change(access, lambda found: found.settled(id))

    async def _token(self, api: Api, live: Live, needed: Needed) -> IssuedToken:
        party, actor = self._accesses.party, api.route.actor
        target = party.api(api.route.target)
        known = api.token if target else own_token(live.session)
        if known is not None and needed.is_met_by(known, party.clock.now()):
            return known
        # A request for a token may be shared with the person's own, which the end of the access
        # must not fail: only the session is judged here.
        holder = Detached(party, self._access.copy_of_session(), may_be_idle=True)
        acting = Actor(self._access.id, partial(actor, self._access)) if actor else None
        token = await self._accesses.grants.token(live.session.id, holder, target, needed, acting)
        await self._judge()  # the provider may have been asked, and that takes its time
        api.token = token
        return token

    def _record(self, call: Call) -> None:
        """Count what the call has cost, and tell what it was."""
        seconds, code = time.perf_counter() - call.began, call.error.code if call.error else None
        facts = call.told | {"seconds": seconds, "code": code}
        self._cost = self._cost.plus(Use(1, facts["sent"], facts["received"]))
        self._accesses.announce(EventName.ACCESS_CALLED, self._access, "called", **facts)

    async def _store_cost(self) -> None:
        """Store the costs that are not stored, which count here until then; raises SessionError."""
        async with self._recording:  # the watch and the end of the app would count calls twice
            if (cost := self._cost).calls:
                await self._accesses.change(self._access, lambda found: found.costing(cost))
                self._cost = Use(*(now - then for now, then in zip(self._cost, cost, strict=True)))

    async def _watch_calls(self) -> None:
        """Judge the access while calls are under way, and store what they cost.

        A look that fails cuts them, and the next one follows until the costs are stored.
        """
        while self._open or self._cost.calls:
            await asyncio.sleep(POLL_SECONDS)
            try:
                async with asyncio.timeout(SILENT_SECONDS):
                    await self._store_cost()
                    await self._judge()
            except Exception as error:  # whatever it is, the access is not known to last
                unknown = SessionError(Code.SESSION_STORE_UNAVAILABLE, type(error).__name__)
                self.cut(error if isinstance(error, SessionError) else unknown)
            for call in (each for each in self._open if each.has_left()):
                call.cut(Refused(Code.BROKER_REQUEST, "the guest has left"))


def _require_at_most(most: int, size: int) -> None:
    if size > most:
        raise Refused(Code.BROKER_TOO_LARGE, f"more than {most} bytes")


def _as_refusal(error: Exception) -> OIDCError:
    """The error that a guest gets; it has nothing of the provider's or the API's text."""
    if isinstance(error, SessionError) and not isinstance(error, Refused) and not error.is_outage:
        return Refused(Code.BROKER_SIGNED_OUT, str(error))
    if isinstance(error, OIDCError):
        return error
    is_of_guest = isinstance(error, (ClientDisconnect, OSError))  # it has left
    code = Code.BROKER_REQUEST if is_of_guest else Code.BROKER_UNREACHABLE
    return Refused(code, type(error).__name__)
