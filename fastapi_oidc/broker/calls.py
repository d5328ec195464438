"""One call of a guest: what it asks for, its body, and the answer that it gets."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Final

import httpx
from anyio import move_on_after
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from fastapi_oidc.broker.access import Asked, Refused
from fastapi_oidc.broker.route import HOP_BY_HOP, Route, normalised, require_no_token
from fastapi_oidc.errors import Code, OIDCError, SessionError

CONNECT_SECONDS: Final = 10.0
"""Seconds for a connection to an address."""

SMALL_BODY: Final = 64 * 1024
"""Bytes up to which a body is read before it is sent, so that it can be sent again with a nonce."""

_NEVER_WORDS: Final = (
    "alt-svc authentication-info authorization cookie dpop dpop-nonce set-cookie www-authenticate"
)
_NEVER_ANSWERED: Final = HOP_BY_HOP.union(_NEVER_WORDS.split())


class Call:
    """One call, as far as it has come, of `seconds` at most.

    `sent` and `received` are the bytes of its body and of its answer so far. `status` is that of
    the answer to the guest, 0 before it begins. `error` is why it has no whole answer of the API.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, seconds: float) -> None:
        self.request, self._asgi = Request(scope, receive), (scope, receive, send)
        self._began, self._where = time.perf_counter(), dict[str, str]()
        # A scope, because httpcore closes connections in shields against it, not against tasks.
        self.bound = move_on_after(seconds)
        self.reason: SessionError = Refused(Code.BROKER_TIMEOUT, "the call took too long")
        self.error: OIDCError | None = None
        self.status = self.sent = self.received = 0

    def cut(self, because: SessionError) -> None:
        """End the call."""
        self.reason = because
        self.bound.cancel()

    def read(self, routes: Mapping[str, Route]) -> Asked:
        """What the guest asks for; raises Refused for anything that is not plainly in the table.

        The guest's `Host` selects a route, and is never a destination.
        """
        scope, headers, method = self.request.scope, self.request.headers, self.request.method
        if scope["http_version"] == "1.0":  # it ends an answer as a cut one ends (RFC 9112 6.3)
            raise Refused(Code.BROKER_VERSION, "the request is HTTP/1.0")
        name, target = _name_and_target(scope["raw_path"], headers.get("host", ""))
        if name not in routes:
            raise Refused(Code.BROKER_NAME, "the access has no route of this name")
        route, path, query = routes[name], normalised(target), scope["query_string"].decode()
        require_no_token(query)
        if not route.allowed.fullmatch(f"{method} {path}"):
            raise Refused(Code.BROKER_NOT_ALLOWED, f"the route allows no {method} of this path")
        passed = route.passed - _for_one_hop(headers.getlist("connection"))
        kept = tuple(pair for pair in headers.items() if pair[0] in passed)
        self._where = {"route": name, "method": method, "path": path}
        url = f"{route.url}{path}?{query}" if query else f"{route.url}{path}"
        return Asked(**self._where, url=url, headers=kept)

    async def body(self, most: int) -> bytes | AsyncIterator[bytes]:
        """The body, in one piece if it is small, else as a stream; see `whole`."""
        if self._length is not None and self._length > most:
            raise _too_large(most)
        is_small = self._length is not None and self._length <= SMALL_BODY
        return await self.whole(most) if is_small else self._parts(most)

    async def whole(self, most: int) -> bytes:
        """The body, of `most` bytes at most; raises Refused and ClientDisconnect."""
        return b"".join([part async for part in self._parts(most)])

    def request_to(self, asked: Asked, body: bytes | AsyncIterator[bytes]) -> httpx.Request:
        """The request to the API. Its framing is our own: a length, or chunks (RFC 9112 6)."""
        headers = httpx.Headers(asked.headers, encoding="latin-1")
        if self._length is not None and not isinstance(body, bytes):
            headers["Content-Length"] = str(self._length)
        # The class itself, not `client.build_request`, which would add what the client has.
        timeout = {"timeout": {"connect": CONNECT_SECONDS}}
        return httpx.Request(
            asked.method, asked.url, headers=headers, content=body, extensions=timeout
        )

    async def pass_on(self, answer: httpx.Response, most: int) -> None:
        """Stream the API's answer to the guest, until that leaves; raises Refused."""
        has_two = {"content-length", "transfer-encoding"} <= {*answer.headers}
        if not 200 <= answer.status_code < 600 or has_two:
            raise Refused(Code.BROKER_UNREACHABLE, "the answer has another status, or two framings")
        response = StreamingResponse(self._counted(answer, most), answer.status_code)
        response.raw_headers = _passed_on(answer)
        await self._respond(response)

    async def refuse(self, error: OIDCError) -> None:
        """Answer with a sentence and the stable code, for a program or its author."""
        text = f"{error.code}: {error.public_text}\n"
        headers = {"Cache-Control": "no-store", "Connection": "close"}  # a body may be unread
        await self._respond(PlainTextResponse(text, int(error.status), headers))

    def facts(self) -> dict[str, Any]:
        """The call's members of an AccessEvent."""
        counts = {"status": self.status, "sent": self.sent, "received": self.received}
        return self._where | counts | {"seconds": time.perf_counter() - self._began}

    @property
    def _length(self) -> int | None:
        """The announced length; None for chunks, which override it (RFC 9112 6.3)."""
        headers = self.request.headers
        return None if "transfer-encoding" in headers else int(headers.get("content-length", 0))

    async def _parts(self, most: int) -> AsyncIterator[bytes]:
        async for part in self.request.stream():
            self.sent += len(part)
            if self.sent > most:
                raise _too_large(most)
            yield part

    async def _counted(self, answer: httpx.Response, most: int) -> AsyncIterator[bytes]:
        async for part in answer.aiter_raw():
            self.received += len(part)
            if self.received > most:
                raise _too_large(most)
            yield part

    async def _respond(self, response: Response) -> None:
        self.status = response.status_code
        await response(*self._asgi)


def _name_and_target(target: bytes, host: str) -> tuple[str, bytes]:
    """The name and the path. A target for a proxy has its own host (RFC 9112 3.2.2)."""
    if target.startswith(b"http://"):
        named, slash, rest = target[7:].partition(b"/")
        host, target = named.decode("latin-1"), slash + rest
    return host.partition(":")[0].lower(), target


def _for_one_hop(connection: Iterable[str]) -> frozenset[str]:
    """The headers that `Connection` names (RFC 9110 7.6.1)."""
    return frozenset(name.strip().lower() for text in connection for name in text.split(","))


def _passed_on(answer: httpx.Response) -> list[tuple[bytes, bytes]]:
    """The headers of the answer that a guest gets: none that the API made of the token."""
    token = answer.request.headers.get("authorization", "").rpartition(" ")[2].encode()
    never = _NEVER_ANSWERED | _for_one_hop(answer.headers.get_list("connection"))
    pairs = [(name.lower(), text) for name, text in answer.headers.raw]
    return [
        (name, text)
        for name, text in pairs
        if name.decode("latin-1") not in never and not (token and token in text)
    ]


def _too_large(most: int) -> Refused:
    return Refused(Code.BROKER_TOO_LARGE, f"more than {most} bytes")
