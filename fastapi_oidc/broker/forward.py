"""One call of a guest: read from ASGI, sent to the API of its route, and answered."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import httpx
from starlette.types import Message, Receive, Scope, Send

from fastapi_oidc.broker.limits import Limits, Refused
from fastapi_oidc.broker.paths import normalised, readable_query
from fastapi_oidc.broker.route import HOP_BY_HOP, Route
from fastapi_oidc.errors import Code, OIDCError

SMALL_BODY: Final = 64 * 1024
"""Bytes up to which a body is read before it is sent, so that it can be sent again with a nonce."""

_NEVER_WORDS: Final = (
    "alt-svc authentication-info authorization cookie dpop dpop-nonce set-cookie www-authenticate"
)
_NEVER_ANSWERED: Final = HOP_BY_HOP.union(_NEVER_WORDS.split())
_BODILESS: Final = ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a guest asks for: where, with which headers; its body is read later.

    `length` is the number of bytes that the guest has announced, None if it sends chunks.
    """

    name: str
    route: Route
    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    length: int | None

    @property
    def url(self) -> httpx.URL:
        """The destination: the route's, with the normalised path; raises Refused."""
        base = self.route.base
        target = base.raw_path.decode().rstrip("/") + self.path
        target += f"?{self.query}" if self.query else ""
        url = base.copy_with(raw_path=target.encode())
        if url.raw_path != target.encode():
            raise Refused(Code.BROKER_REQUEST, "the query would be sent in another form")
        return url

    def fingerprint(self, body: bytes) -> str:
        """What exactly is asked, as 64 characters."""
        members = [self.method, str(self.url), self.headers, hashlib.sha256(body).hexdigest()]
        return hashlib.sha256(json.dumps(members).encode()).hexdigest()


@dataclass(slots=True)
class Traffic:
    """What a call has moved so far: bytes of its body and of its answer.

    `status` is that of the answer to the guest, 0 before it begins. `is_whole`: all of the API's
    answer has been sent.
    """

    sent: int = 0
    received: int = 0
    status: int = 0
    is_whole: bool = False


def read_request(scope: Scope, routes: Mapping[str, Route]) -> Asked:
    """Read the request of a guest; raises Refused for anything that is not plainly in the table.

    The guest's `Host` selects a route, and is never a destination.
    """
    headers = [(name.decode("latin-1"), text.decode("latin-1")) for name, text in scope["headers"]]
    route = routes.get(name := _host_of(headers))
    if route is None:
        raise Refused(Code.BROKER_NAME, "the access has no route of this name")
    method, path = str(scope["method"]), normalised(scope["raw_path"])
    query = readable_query(scope["query_string"])
    if not route.allows(method, path):
        raise Refused(Code.BROKER_NOT_ALLOWED, f"the route does not allow {method} of this path")
    length = _length_of(headers)
    listed = _named_by_connection(headers)
    passed = tuple(pair for pair in headers if pair[0] in route.passed - listed)
    return Asked(name, route, method, path, query, passed, length)


async def read_body(asked: Asked, receive: Receive, most: int) -> bytes:
    """The whole body; raises Refused (broker.too_large)."""
    body = bytearray()
    async for part in _parts(receive, most, asked.length):
        body += part
    return bytes(body)


async def body_to_send(
    asked: Asked, receive: Receive, limits: Limits, traffic: Traffic
) -> bytes | AsyncIterator[bytes]:
    """The body, in one piece if it is small, else as a stream; raises Refused."""
    if asked.length is not None and asked.length <= SMALL_BODY:
        body = await read_body(asked, receive, asked.length)
        traffic.sent += len(body)
        return body
    if asked.length is not None and asked.length > limits.request_bytes:
        raise _too_large(limits.request_bytes)
    return _counted(_parts(receive, limits.request_bytes, asked.length), traffic)


def request_to(asked: Asked, body: bytes | AsyncIterator[bytes]) -> httpx.Request:
    """The request to the API. Its framing is our own: a length, or chunks (RFC 9112 6)."""
    headers = [*asked.headers]
    if "accept-encoding" not in dict(headers):
        headers.append(("accept-encoding", "identity"))
    if asked.length is not None and not isinstance(body, bytes):
        headers.append(("content-length", str(asked.length)))
    # The class itself, not `client.build_request`, which would add what the client has.
    content = None if body == b"" and asked.method in _BODILESS else body
    return httpx.Request(asked.method, asked.url, headers=headers, content=content)


async def send_answer(answer: httpx.Response, send: Send, limits: Limits, traffic: Traffic) -> None:
    """Stream the API's answer to the guest, without its end.

    Raises Refused when it is too large.
    """
    headers, length = _headers_of(answer), answer.headers.get("content-length")
    await send(start(answer.status_code, headers, traffic))
    async for part in answer.aiter_raw():
        traffic.received += len(part)
        if traffic.received > limits.answer_bytes:
            raise _too_large(limits.answer_bytes)
        traffic.is_whole = str(traffic.received) == length
        await send({"type": "http.response.body", "body": part, "more_body": True})
    traffic.is_whole = True


async def send_refusal(error: OIDCError, send: Send, traffic: Traffic) -> None:
    """A sentence with the stable code, for a program or its author."""
    text = f"{error.code}: {error.public_text}\n".encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(text)).encode()),
        (b"cache-control", b"no-store"),
    ]
    await send(start(error.status, headers, traffic))
    await send({"type": "http.response.body", "body": text})


def start(status: int, headers: Sequence[tuple[bytes, bytes]], traffic: Traffic) -> Message:
    """The begin of an answer."""
    traffic.status = int(status)
    return {"type": "http.response.start", "status": int(status), "headers": [*headers]}


def _host_of(headers: Sequence[tuple[str, str]]) -> str:
    hosts = [text for name, text in headers if name == "host"]
    if len(hosts) != 1:
        raise Refused(Code.BROKER_REQUEST, "a request has one Host (RFC 9112 3.2)")
    name, _, port = hosts[0].partition(":")
    if port and not (port.isascii() and port.isdigit()):
        raise Refused(Code.BROKER_REQUEST, "the Host is no name with a port")
    return name.lower()


def _length_of(headers: Sequence[tuple[str, str]]) -> int | None:
    """The announced length; raises Refused for two framings (RFC 9112 6.1 and 6.3)."""
    lengths = [text for name, text in headers if name == "content-length"]
    codings = [text.lower() for name, text in headers if name == "transfer-encoding"]
    if not lengths and not codings:
        return 0
    if codings == ["chunked"] and not lengths:
        return None
    is_number = len(lengths) == 1 and lengths[0].isascii() and lengths[0].isdigit()
    if codings or not is_number or len(lengths[0]) > 18:
        raise Refused(Code.BROKER_REQUEST, "the body has no single length or framing")
    return int(lengths[0])


def _named_by_connection(headers: Sequence[tuple[str, str]]) -> frozenset[str]:
    """The headers that `Connection` makes hop-by-hop (RFC 9110 7.6.1)."""
    texts = [text for name, text in headers if name.lower() == "connection"]
    return frozenset(name.strip().lower() for text in texts for name in text.split(","))


def _headers_of(answer: httpx.Response) -> list[tuple[bytes, bytes]]:
    """The headers of the answer that a guest gets: none that the API made of the token."""
    token = answer.request.headers.get("authorization", "").rpartition(" ")[2].encode()
    pairs = [(name.lower(), text) for name, text in answer.headers.raw]
    never = _NEVER_ANSWERED | _named_by_connection(
        [(name.decode("latin-1"), text.decode("latin-1")) for name, text in pairs]
    )
    if any(name == b"transfer-encoding" for name, _ in pairs):
        never |= {"content-length"}  # the length is that of no answer (RFC 9112 6.3)
    return [
        (name, text)
        for name, text in pairs
        if name.decode("latin-1") not in never and not (token and token in text)
    ]


async def _parts(receive: Receive, most: int, length: int | None) -> AsyncIterator[bytes]:
    """The parts of the guest's body, `most` bytes at most, and exactly as many as announced."""
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(Code.BROKER_REQUEST, "the guest ended its request early")
        part = message.get("body", b"")
        size += len(part)
        if size > most:
            raise _too_large(most)
        if part:
            yield part
        if not message.get("more_body"):
            break
    if length not in (None, size):
        raise Refused(Code.BROKER_REQUEST, "the body is shorter than announced")


async def _counted(parts: AsyncIterator[bytes], traffic: Traffic) -> AsyncIterator[bytes]:
    async for part in parts:
        traffic.sent += len(part)
        yield part


def _too_large(most: int) -> Refused:
    return Refused(Code.BROKER_TOO_LARGE, f"more than {most} bytes")
