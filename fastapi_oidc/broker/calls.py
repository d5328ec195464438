"""One call of a guest: what it asks for, its body, and the answer that it gets."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping
from typing import Any, Final, Literal

import httpx
from anyio import move_on_after
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from fastapi_oidc.broker.access import Refused
from fastapi_oidc.broker.route import (
    HOP_BY_HOP,
    MOST_PATH,
    MOST_TARGET,
    Route,
    normalised,
    query_of,
)
from fastapi_oidc.errors import Code, OIDCError, SessionError

CONNECT_SECONDS: Final = 10.0
"""Seconds for a connection to an address."""

REFUSAL_SECONDS: Final = 5.0
"""Seconds for which a guest can leave a refusal unread."""

SMALL_BODY: Final = 64 * 1024
"""Bytes up to which a body is read before it is sent, so that it can be sent again with a nonce."""

_NEVER_WORDS: Final = (
    "alt-svc authentication-info authorization cookie dpop dpop-nonce set-cookie www-authenticate"
)
_NEVER_ANSWERED: Final = HOP_BY_HOP.union(_NEVER_WORDS.split())

_TARGET: Final = re.compile(rb"(?:http://([^/]*))?(.*)")
"""A path, for a proxy with the host before it (RFC 9112 3.2.2)."""


class Call:
    """One call, as far as it has come, of `seconds` at most.

    `bytes` are those of its body and of its answer so far. `status` is that of the answer to the
    guest, 0 before it begins. `error` is why it has no whole answer of the API.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, seconds: float) -> None:
        # With this version Starlette sends an answer without a task that listens for its guest.
        plain = {**scope, "asgi": {"spec_version": "2.4"}}
        self.request, self._asgi = Request(scope, receive), (plain, receive, send)
        self.where, self.bytes = dict[str, Any](), {"sent": 0, "received": 0}
        self.status, self._is_read, self._began = 0, False, time.perf_counter()
        self.bound = move_on_after(seconds)
        self.reason: SessionError = Refused(Code.BROKER_TIMEOUT, "the call took too long")
        self.error: OIDCError | None = None
        self._next: asyncio.Future[Message] | None = None

    def cut(self, because: SessionError) -> None:
        """End the call."""
        self.reason = because
        self.bound.cancel()

    def look(self) -> None:
        """End the call if its guest has left; while its body is read, that is noticed there.

        The first look asks the server once: each question lets it read more, without a bound.
        """
        if self._next is None and self._is_read:
            self._next = asyncio.ensure_future(self._asgi[1]())
        elif self._next and self._next.done() and self._next.result()["type"] == "http.disconnect":
            self.cut(Refused(Code.BROKER_REQUEST, "the guest has left"))

    def end(self) -> None:
        """Ask no more whether the guest has left."""
        if self._next is not None:
            self._next.cancel()

    def read(self, routes: Mapping[str, Route]) -> Route:
        """The route that the guest asks for; raises Refused unless it plainly allows the call.

        The guest's `Host` selects a route, and is never a destination.
        """
        scope, method = self.request.scope, self.request.method
        query = scope["query_string"]
        if scope["http_version"] == "1.0":  # it ends an answer as a cut one ends (RFC 9112 6.3)
            raise Refused(Code.BROKER_VERSION, "the request is HTTP/1.0")
        host, target = _TARGET.fullmatch(scope["raw_path"]).groups()  # type: ignore[union-attr]
        if max(len(method), len(target)) > MOST_PATH or len(target) + len(query) > MOST_TARGET:
            raise Refused(Code.BROKER_REQUEST, "the method, path or query is too long")
        named = self.request.headers.get("host", "") if host is None else host.decode("latin-1")
        name = named.partition(":")[0].lower()
        if name not in routes:
            raise Refused(Code.BROKER_NAME, "the access has no route of this name")
        route, self.where = routes[name], {"route": name, "method": method, "path": ""}
        path = self.where["path"] = normalised(target)
        query = query_of(query)
        if not route.allowed.fullmatch(f"{method} {path}"):
            raise Refused(Code.BROKER_NOT_ALLOWED, f"the route allows no {method} of this path")
        self._url = f"{route.url}{path}{query and '?'}{query}"
        return route

    async def request_to(self, route: Route, most: int) -> httpx.Request:
        """The request to the API, with a body of `most` bytes, which is not read if it is large.

        Its framing is our own: a length, or chunks (RFC 9112 6). Raises Refused, ClientDisconnect.
        """
        given = self.request.headers
        passed = route.passed - _for_one_hop(given.getlist("connection"))
        headers = [pair for pair in given.raw if pair[0].decode("latin-1") in passed]
        body: Any = self._counted("sent", self.request.stream(), most)
        if "transfer-encoding" not in given:  # else chunks override a length (RFC 9112 6.3)
            length = int(given.get("content-length", 0))
            if length > most:
                raise _too_large(most)
            if length:
                headers.append((b"content-length", str(length).encode()))
            if length <= SMALL_BODY:
                body = b"".join([part async for part in body])
        method, timeout = self.where["method"], {"timeout": {"connect": CONNECT_SECONDS}}
        # The class itself, not `client.build_request`, which would add what the client has.
        return httpx.Request(method, self._url, headers=headers, content=body, extensions=timeout)

    async def pass_on(self, answer: httpx.Response, most: int) -> None:
        """Stream the API's answer to the guest, until that leaves; raises Refused."""
        has_two = {"content-length", "transfer-encoding"} <= {*answer.headers}
        if not 200 <= answer.status_code < 600 or has_two:
            raise Refused(Code.BROKER_UNREACHABLE, "the answer has another status, or two framings")
        stream: Any = answer.stream
        parts = self._counted("received", stream, most)
        response = StreamingResponse(parts, answer.status_code)
        response.raw_headers = _passed_on(answer)
        self.status = answer.status_code
        await response(*self._asgi)

    async def refuse(self, error: OIDCError) -> None:
        """Answer with a sentence and the stable code, for a program or its author."""
        text = f"{error.code}: {error.public_text}\n"
        headers = {"Cache-Control": "no-store", "Connection": "close"}  # a body may be unread
        self.status = int(error.status)
        with move_on_after(REFUSAL_SECONDS):
            await PlainTextResponse(text, self.status, headers)(*self._asgi)

    def facts(self) -> dict[str, Any]:
        """The call's members of an AccessEvent."""
        seconds = time.perf_counter() - self._began
        return self.where | {"status": self.status, **self.bytes, "seconds": seconds}

    async def _counted(
        self, what: Literal["sent", "received"], parts: AsyncIterable[bytes], most: int
    ) -> AsyncIterator[bytes]:
        async for part in parts:
            self.bytes[what] += len(part)
            if self.bytes[what] > most:
                raise _too_large(most)
            yield part
        self._is_read = True


def _for_one_hop(connection: Iterable[str]) -> frozenset[str]:
    """The headers that `Connection` names (RFC 9110 7.6.1)."""
    return frozenset(name.strip().lower() for text in connection for name in text.split(","))


def _passed_on(answer: httpx.Response) -> list[tuple[bytes, bytes]]:
    """The headers of the answer that a guest gets: none that the API made of the token."""
    token = answer.request.headers.get("authorization", "").rpartition(" ")[2].encode()
    never = _NEVER_ANSWERED | _for_one_hop(answer.headers.get_list("connection"))
    return [
        (name.lower(), text)
        for name, text in answer.headers.raw
        if name.lower().decode("latin-1") not in never and not (token and token in text)
    ]


def _too_large(most: int) -> Refused:
    return Refused(Code.BROKER_TOO_LARGE, f"more than {most} bytes")
