"""An API for which a name in a guest stands: the calls that pass, and the connections to it."""

from __future__ import annotations

import asyncio
import posixpath
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import field
from ipaddress import ip_address, ip_network
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl

import httpcore
import httpx
from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from fastapi_oidc.broker.access import Access, Refused
from fastapi_oidc.errors import Code, ConfigurationError, misconfigured
from fastapi_oidc.protocol.downstream import ActorToken, IssuedToken, Target
from fastapi_oidc.protocol.urls import fault_of_url, travels_unencrypted

_PASSED: Final = frozenset(
    b"accept accept-encoding accept-language content-encoding content-language content-type "
    b"idempotency-key if-match if-modified-since if-none-match if-range if-unmodified-since "
    b"last-event-id mcp-protocol-version mcp-session-id prefer range user-agent".split()
)
"""Headers of a guest that reach every API. Others may change what a request means, as
`X-HTTP-Method-Override` and `X-Original-URL` do.
"""
_NEVER: Final = frozenset(
    b"alt-svc authentication-info authorization connection cookie dpop dpop-nonce expect forwarded "
    b"host keep-alive proxy-authenticate proxy-authorization proxy-connection set-cookie te "
    b"trailer transfer-encoding upgrade www-authenticate".split()
)
"""Headers that pass in neither direction: those that select a token or a destination, and those for
one hop (RFC 9110 7.6.1, and earlier specifications).
"""

_PATH: Final = re.compile(r"/(?:[\w\-.~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})*", re.ASCII)
_ESCAPE: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_UNRESERVED: Final = re.compile(r"[\w\-.~]", re.ASCII)
_DISGUISED: Final = re.compile(
    r"%(?:2F|5C|[01][0-9A-F]|7F|25(?:2E|2F|5C))|//|/\.\.?;", re.IGNORECASE
)
"""What servers read in different ways: encoded slashes, control characters, a dot or slash that is
encoded twice, empty segments, and dot segments with a parameter.
"""
_QUERY: Final = re.compile(r'[!"$-~]*')
"""Without `#`: a person would see what follows, and no API would get it (RFC 9112 3.2)."""
_CALL: Final = re.compile(r"(?!TRACE |CONNECT )[A-Z]+ ((?:/[^/*]*(?:\*[^/*]*)?)*(?:/\*\*)?)")
"""An API answers TRACE with the token that was sent (RFC 9110 9.3.8); CONNECT has no path. One `*`
in a segment has one end there, so no path is tried in each of its divisions.
"""

Take: TypeAlias = Callable[[httpx.Response], Awaitable[None]]

_NOT_UNICAST: Final = "224.0.0.0/4 ::/3 4000::/2 8000::/1"
"""Multicast, and all that is no public IPv6 address so far, such as addresses that lead to IPv4
(RFC 4291, 6052, 7915).
"""
_OF_OTHERS: Final = "168.63.129.16/32 192.0.0.0/24 2002::/16 2001::/32 3fff::/20"
"""Not private for every Python: metadata of Azure (at a public address) and of Oracle, IPv4 inside
of IPv6 (RFC 3056 and 4380), and addresses of documentation (RFC 9637).
"""
_NOT_PUBLIC: Final = [*map(ip_network, f"{_NOT_UNICAST} {_OF_OTHERS}".split())]


_CHECKED: Final = ConfigDict(arbitrary_types_allowed=True, extra="forbid")


@dataclass(kw_only=True, eq=False, repr=False, config=_CHECKED)
class Route:
    """An API at `url`, and the calls of it that a guest may make.

    `allow` lists methods with paths below `url`, such as "GET /events/*": `*` is a part of one
    segment, and `/**` at the end is any number of segments. Those that `approve` repeats wait for
    the person. `headers` are further request headers that pass.

    `audience`, `resource` and `scope` select one of the `downstream_apis`, as in `oidc.auth`;
    `own_token` sends the session's own token instead, and `auth` replaces the person's token.
    `actor` returns the actor token of a machine for a token exchange (RFC 8693 4.1).

    `url` begins with https, unless it is on this host or `networks` are given. A name is called at
    public addresses and those in `networks` (as "10.0.0.0/8"). Raises ConfigurationError, and
    pydantic's ValidationError for a value of another type.
    """

    url: str = field(kw_only=False)
    allow: Sequence[str]
    approve: Sequence[str] = ()
    audience: str | None = None
    resource: str | None = None
    scope: str | Sequence[str] = ()
    own_token: bool = False
    auth: httpx.Auth | None = None
    actor: Callable[[Access], Coroutine[Any, Any, ActorToken]] | None = None
    headers: Sequence[str] = ()
    networks: Sequence[str] = ()
    verify: ssl.SSLContext | bool = True

    def __post_init__(self) -> None:
        """Refuse what cannot be meant, and prepare what each call needs."""
        self.target = Target(audience=self.audience, resource=self.resource, scope=self.scope)
        if [not self.target.is_empty, self.own_token, self.auth is not None].count(True) != 1:
            raise _invalid("give one of audience, resource and scope; or own_token; or auth")
        if not set(self.approve) <= set(self.allow):  # a misspelled one would pass
            raise _invalid("approve has a call that allow has not")
        is_private = bool(self.networks) or not travels_unencrypted(self.url)
        if fault_of_url(self.url, allow_insecure_http=is_private) or "?" in self.url:
            raise _invalid("url must begin with https, and have no user, query and fragment")
        self.url, self._named = self.url.rstrip("/"), [*map(ip_network, self.networks)]
        below = f" {httpx.URL(self.url).path}"
        for call in (each for each in self.allow if f"{below}/" in f"{each.rstrip('/')}/"):
            raise _invalid(f"{call!r} repeats the path of url: leave out{below}")
        self.context = httpx.create_ssl_context(self.verify, trust_env=False)
        more = {name.lower().encode() for name in self.headers}
        self.passed = _PASSED.union(more) - {b"content-length"}  # the body's length is our own
        self.allowed, self.approved = pattern_of(self.allow), pattern_of(self.approve)

    def reaches(self, host: str) -> bool:
        """Whether an IP address is in one of `networks` or, with https, public."""
        address = ip_address(host)
        address = getattr(address, "ipv4_mapped", None) or address  # a connection leads there
        is_public = address.is_global and not any(address in each for each in _NOT_PUBLIC)
        is_named = any(address in each for each in self._named)
        return is_named or (is_public and self.url.startswith("https:"))


def pattern_of(calls: Sequence[str]) -> re.Pattern[str]:
    """The pattern of texts such as "GET /events/1" that one of `calls` allows.

    Raises ConfigurationError for what could never match.
    """
    for call in calls:
        found = _CALL.fullmatch(call)
        with suppress(Refused):
            if found is not None and normalised(found[1].encode()) == found[1]:
                continue
        raise _invalid(f'{call!r} is no method and normalised path, such as "GET /events/*"')
    plain = "|".join(map(re.escape, calls))
    return re.compile(plain.replace(r"\*\*", ".+").replace(r"\*", "[^/]+"))


def normalised(raw: bytes) -> str:
    """The path with its escapes and dot segments resolved; raises Refused (broker.request).

    The result is what is matched and what is sent.
    """
    text = raw.decode("latin-1")
    path = _ESCAPE.sub(_unescaped, text)
    if not _PATH.fullmatch(text) or _DISGUISED.search(path):
        raise Refused(Code.BROKER_REQUEST, "servers would read the path in different ways")
    ends = "/" if path.endswith(("/", "/.", "/..")) else ""
    return posixpath.normpath(path).rstrip("/") + ends or "/"


def _unescaped(escape: re.Match[str]) -> str:
    character = chr(int(escape[0][1:], 16))
    return character if _UNRESERVED.match(character) else escape[0].upper()


def query_of(raw: bytes) -> str:
    """The query with its `?`, as it is sent; "" without one. Raises Refused (broker.request).

    A token in it (RFC 6750 2.3) would compete with the one that is sent.
    """
    query = raw.decode("latin-1")
    has_token = "access_token" in dict(parse_qsl(query, keep_blank_values=True))
    if has_token or not _QUERY.fullmatch(query):
        raise Refused(Code.BROKER_REQUEST, "the query has a token, or what would not be sent")
    return query and f"?{query}"


def end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Those of the headers that are not for one hop and may pass, with names in lower case."""
    lower = [(name.lower(), text) for name, text in headers]
    named = b",".join(text for name, text in lower if name == b"connection").lower().split(b",")
    never = _NEVER.union(name.strip() for name in named)
    return [pair for pair in lower if pair[0] not in never]


class CheckedNetwork(httpcore.AnyIOBackend):
    """Connects to addresses that are public, or in the networks that the route names.

    httpcore asks for a connection to a name, and checks the certificate for that name. The checked
    address itself is connected to, so a second answer of the name server changes nothing.
    """

    def __init__(self, route: Route) -> None:
        self._route = route

    async def connect_tcp(
        self, host: str, port: int, *options: Any, **named: Any
    ) -> httpcore.AsyncNetworkStream:
        """Raises Refused (broker.address) and httpcore.ConnectError."""
        with suppress(OSError, UnicodeError):  # the name is not found
            for address in await self._checked(host, port):
                with suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                    return await super().connect_tcp(address, port, *options, **named)
        raise httpcore.ConnectError("no address of the host accepts connections")

    async def _checked(self, host: str, port: int) -> Iterable[str]:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = dict.fromkeys(str(address[0]) for *_, address in found)
        for address in {*addresses} - {host}:  # unless the URL itself names it
            if not self._route.reaches(address):
                raise Refused(Code.BROKER_ADDRESS, f"{host} is neither public nor in networks")
        return addresses


class Api(httpx.AsyncHTTPTransport):
    """The API of a route as one guest reaches it: its connections, and the token that they send.

    Guests do not share them: what an API sends after the end of an answer is read as the next one.
    """

    def __init__(self, route: Route) -> None:
        self.route = route
        self.token: IssuedToken | None = None
        # httpx has no option for a backend. Without super() there is no other pool to fall back to.
        self._pool = httpcore.AsyncConnectionPool(
            route.context,
            max_connections=None,
            keepalive_expiry=3.0,
            network_backend=CheckedNetwork(route),
        )

    async def send(self, request: httpx.Request, auth: httpx.Auth, take: Take) -> None:
        """Have the answer taken, whose body can be read then; raises Refused and httpx.HTTPError.

        There is no client around the connections: it would follow redirects, keep the API's
        cookies, and write the query into its log.
        """
        async with aclosing(auth.async_auth_flow(request)) as flow:
            request = await anext(flow)
            while True:
                async with aclosing(await self.handle_async_request(request)) as answer:
                    answer.request = request
                    try:
                        request = await flow.asend(answer)
                    except StopAsyncIteration:
                        return await take(answer)


def _invalid(explanation: str) -> ConfigurationError:
    return misconfigured(f"Route: {explanation}")
