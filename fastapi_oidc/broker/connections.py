"""Connections to the APIs: a name is resolved, and the checked address itself is connected to."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, Final, cast

import httpcore
import httpx
from anyio import CancelScope

from fastapi_oidc.broker.access import Refused
from fastapi_oidc.broker.route import Network, Route
from fastapi_oidc.errors import Code

FAILURES: Final = (
    *(httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException),
    *(httpx.HTTPError, httpx.StreamError),  # of an `auth`, and for a body that can be sent once
)
"""Errors of a connection or of its API."""

IDLE_SECONDS: Final = 3.0
"""Seconds for which a connection is used again."""

_UNICAST: Final = ip_network("2000::/3")
"""All public IPv6 addresses so far. Outside are others that lead to IPv4 (RFC 4291, 6052, 7915)."""

_NEVER_WORDS: Final = "168.63.129.16/32 192.0.0.0/24 2002::/16 2001::/32 3fff::/20"
_NEVER: Final = tuple(map(ip_network, _NEVER_WORDS.split()))
"""Not private for every Python: metadata of Azure (at a public address) and of Oracle, IPv4 inside
of IPv6 (RFC 3056 and 4380), and addresses of documentation (RFC 9637).
"""


def is_callable(
    address: IPv4Address | IPv6Address, networks: Iterable[Network], *, encrypted: bool = True
) -> bool:
    """Whether an address is in a network that the route names or, `encrypted`, is public."""
    address = getattr(address, "ipv4_mapped", None) or address
    if any(address in network for network in networks):
        return True
    if not encrypted or not address.is_global or address.is_multicast:
        return False
    is_unicast = isinstance(address, IPv4Address) or address in _UNICAST
    return is_unicast and not any(address in network for network in _NEVER)


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
        failed: Exception = httpcore.ConnectError("the host name has no address")
        for address in await self._checked(host, port):
            try:
                return await super().connect_tcp(address, port, *options, **named)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
        raise failed

    async def _checked(self, host: str, port: int) -> Iterable[str]:
        loop, encrypted = asyncio.get_running_loop(), self._route.url.startswith("https:")
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError("the host name is not found") from error
        addresses = dict.fromkeys(str(address[0]) for *_, address in found)
        for address in map(ip_address, addresses):
            is_named = str(address) == host  # by the URL itself
            if not is_named and not is_callable(address, self._route.networks, encrypted=encrypted):
                explanation = f"{host} has an address that is not public, and the route names none"
                raise Refused(Code.BROKER_ADDRESS, explanation)
        return addresses


class Connections:
    """The connections of one guest to the API of one route.

    Guests do not share them: what an API sends after the end of an answer is read as the next one.
    A connection has one request at a time, so the bound of calls is theirs, too.
    """

    def __init__(self, route: Route) -> None:
        self._route, self._network = route, CheckedNetwork(route)
        self._idle = deque[httpcore.AsyncHTTPConnection]()

    @asynccontextmanager
    async def answer(
        self, request: httpx.Request, auth: httpx.Auth
    ) -> AsyncIterator[httpx.Response]:
        """The answer, whose body can be read within the block; raises Refused and FAILURES.

        There is no client around the connections: it would follow redirects, keep the API's
        cookies, and write the query into its log.
        """
        async with aclosing(auth.async_auth_flow(request)) as flow:
            request = await anext(flow)
            while True:
                async with self._sent(request) as answer:
                    try:
                        request = await flow.asend(answer)
                    except StopAsyncIteration:
                        yield answer
                        return

    async def aclose(self) -> None:
        """Close the connections that no call has."""
        while self._idle:
            await self._idle.popleft().aclose()

    @asynccontextmanager
    async def _sent(self, request: httpx.Request) -> AsyncIterator[httpx.Response]:
        at, headers, body = request.url, request.headers.raw, request.stream
        url = httpcore.URL(scheme=at.raw_scheme, host=at.raw_host, port=at.port, target=at.raw_path)
        connection = await self._connection_to(url.origin)
        try:
            sent = httpcore.Request(
                request.method, url, headers=headers, content=body, extensions=request.extensions
            )
            async with aclosing(await connection.handle_async_request(sent)) as answer:
                status, parts = answer.status, cast("httpx.AsyncByteStream", answer.stream)
                yield httpx.Response(status, headers=answer.headers, stream=parts, request=request)
        finally:
            if connection.is_available():
                self._idle.append(connection)
            else:
                with CancelScope(shield=True):
                    await connection.aclose()

    async def _connection_to(self, origin: httpcore.Origin) -> httpcore.AsyncHTTPConnection:
        """The connection that is idle the longest, or else a new one."""
        while self._idle:
            connection = self._idle.popleft()
            if not connection.has_expired():
                return connection
            await connection.aclose()
        return httpcore.AsyncHTTPConnection(
            origin, self._route.context, IDLE_SECONDS, network_backend=self._network
        )
