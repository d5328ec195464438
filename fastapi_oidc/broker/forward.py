"""One call of a guest: what it asks for, its body, and the answer that it gets."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Final, TypeAlias

import httpx
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from fastapi_oidc.broker.access import Asked, Refused
from fastapi_oidc.broker.calls import Cut
from fastapi_oidc.broker.connections import CONNECT_SECONDS
from fastapi_oidc.broker.paths import normalised, readable_query
from fastapi_oidc.broker.route import HOP_BY_HOP, Route
from fastapi_oidc.errors import Code, OIDCError

Body: TypeAlias = bytes | AsyncIterator[bytes]

SMALL_BODY: Final = 64 * 1024
"""Bytes up to which a body is read before it is sent, so that it can be sent again with a nonce."""

MOST_URL: Final = 32 * 1024
"""Characters of a URL; httpx does not send one of more than 64 KiB."""

_NEVER_WORDS: Final = (
    "alt-svc authentication-info authorization cookie dpop dpop-nonce set-cookie www-authenticate"
)
_NEVER_ANSWERED: Final = HOP_BY_HOP.union(_NEVER_WORDS.split())
_LENGTH: Final = re.compile(r"[0-9]{1,18}")


class Call:
    """One call, as far as it has come.

    `sent` and `received` are the bytes of its body and of its answer so far. `status` is that of
    the answer to the guest, 0 before it begins. `cut` ends the call while it is open.
    """

    cut: Cut

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._request, self._send = Request(scope, receive), send
        self._began = time.perf_counter()
        self._leaving: asyncio.Task[None] | None = None
        self._length: int | None = None
        self._where: dict[str, str] = {}
        self.error: OIDCError | None = None
        self.status = self.sent = self.received = 0

    def read(self, routes: Mapping[str, Route]) -> Asked:
        """What the guest asks for; raises Refused for anything that is not plainly in the table.

        The guest's `Host` selects a route, and is never a destination.
        """
        scope, headers, method = self._request.scope, self._request.headers, self._request.method
        if scope["http_version"] == "1.0":  # it ends an answer as a cut one ends (RFC 9112 6.3)
            raise Refused(Code.BROKER_VERSION, "the request is HTTP/1.0")
        self._length = _length_of(headers)
        name, target = _name_and_target(scope["raw_path"], headers.getlist("host"))
        if name not in routes:
            raise Refused(Code.BROKER_NAME, "the access has no route of this name")
        route, path = routes[name], normalised(target)
        query = readable_query(scope["query_string"])
        if not route.allows(method, path):
            raise Refused(Code.BROKER_NOT_ALLOWED, f"the route allows no {method} of this path")
        url = f"{route.url}{path}?{query}" if query else f"{route.url}{path}"
        if len(url) > MOST_URL:
            raise Refused(Code.BROKER_REQUEST, f"the URL has more than {MOST_URL} characters")
        passed = route.passed - _for_one_hop(headers.getlist("connection"))
        kept = tuple(pair for pair in headers.items() if pair[0] in passed)
        self._where = {"route": name, "method": method, "path": path}
        return Asked(name=name, method=method, path=path, url=url, headers=kept)

    async def body(self, most: int) -> Body:
        """The body, in one piece if it is small, else as a stream; see `whole`."""
        if self._length is not None and self._length > most:
            raise _too_large(most)
        is_small = self._length is not None and self._length <= SMALL_BODY
        return await self.whole(most) if is_small else self._parts(most)

    async def whole(self, most: int) -> bytes:
        """The body, of `most` bytes at most; raises Refused and ClientDisconnect."""
        return b"".join([part async for part in self._parts(most)])

    def request_to(self, asked: Asked, body: Body) -> httpx.Request:
        """The request to the API. Its framing is our own: a length, or chunks (RFC 9112 6)."""
        headers = [(name.encode(), text.encode("latin-1")) for name, text in asked.headers]
        if self._length is not None and not isinstance(body, bytes):
            headers.append((b"content-length", str(self._length).encode()))
        # The class itself, not `client.build_request`, which would add what the client has.
        timeout = {"timeout": {"connect": CONNECT_SECONDS}}
        return httpx.Request(
            asked.method, asked.url, headers=headers, content=body, extensions=timeout
        )

    async def answer(self, answer: httpx.Response, most: int) -> None:
        """Stream the API's answer to the guest; raises Refused (broker.too_large)."""
        status, headers = answer.status_code, _passed_on(answer)
        if not 200 <= status < 600 or {"content-length", "transfer-encoding"} <= {*answer.headers}:
            raise Refused(Code.BROKER_UNREACHABLE, "the answer has another status, or two framings")
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        async for part in answer.aiter_raw():
            self.received += len(part)
            if self.received > most:
                raise _too_large(most)
            await self._send({"type": "http.response.body", "body": part, "more_body": True})
        await self._send({"type": "http.response.body", "body": b""})

    async def refuse(self, error: OIDCError) -> None:
        """Answer with a sentence and the stable code, for a program or its author."""
        self.status = int(error.status)
        text, headers = f"{error.code}: {error.public_text}\n", {"Cache-Control": "no-store"}
        if self._leaving is None and self._length != 0:
            headers["Connection"] = "close"  # the rest of the body is no request
        answer = PlainTextResponse(text, self.status, headers)
        await answer(self._request.scope, self._request.receive, self._send)

    def facts(self) -> dict[str, Any]:
        """The call's members of an AccessEvent."""
        counts = {"status": self.status, "sent": self.sent, "received": self.received}
        return self._where | counts | {"seconds": time.perf_counter() - self._began}

    def end(self) -> None:
        """Stop looking whether the guest leaves."""
        if self._leaving is not None:
            self._leaving.cancel()

    async def _parts(self, most: int) -> AsyncIterator[bytes]:
        async for part in self._request.stream():
            self.sent += len(part)
            if self.sent > most:
                raise _too_large(most)
            yield part
        self._leaving = asyncio.create_task(self._end_with_guest())

    async def _end_with_guest(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass
        self.cut(guest_left())


def guest_left() -> Refused:
    """The error of a call whose guest does not wait for the answer."""
    return Refused(Code.BROKER_REQUEST, "the guest has closed the connection")


def _name_and_target(target: bytes, hosts: list[str]) -> tuple[str, bytes]:
    """The name and the path. A target for a proxy has its own host (RFC 9112 3.2.2)."""
    if len(hosts) != 1:
        raise Refused(Code.BROKER_REQUEST, "a request has one Host (RFC 9112 3.2)")
    host = hosts[0]
    if target.startswith(b"http://"):
        host, slash, rest = target[7:].decode("latin-1").partition("/")
        target = (slash + rest).encode("latin-1")
    return host.partition(":")[0].lower(), target


def _length_of(headers: Headers) -> int | None:
    """The announced length; raises Refused for two framings (RFC 9112 6.1 and 6.3)."""
    match headers.getlist("content-length"), headers.getlist("transfer-encoding"):
        case [], []:
            return 0
        case [], [coding] if coding.lower() == "chunked":
            return None
        case [length], [] if _LENGTH.fullmatch(length):
            return int(length)
    raise Refused(Code.BROKER_REQUEST, "the body has no single length or framing")


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
