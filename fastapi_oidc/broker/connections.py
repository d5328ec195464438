"""Connections to the APIs: a name is resolved, and the checked address itself is connected to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, Final

import httpcore
import httpx

from fastapi_oidc.broker.access import Refused
from fastapi_oidc.broker.route import Network, Route
from fastapi_oidc.errors import Code

_UNICAST: Final = ip_network("0.0.0.0/0"), ip_network("2000::/3")
"""Every IPv4 address, and all public IPv6 addresses so far. Outside are IPv6 addresses that lead to
IPv4 (RFC 4291, 6052, 7915).
"""

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

    def is_in(networks: Iterable[Network]) -> bool:
        return any(address in network for network in networks)

    is_public = encrypted and address.is_global and not address.is_multicast
    return is_in(networks) or (is_public and is_in(_UNICAST) and not is_in(_NEVER))


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


class Connections(httpx.AsyncHTTPTransport):
    """The connections of one guest to the API of one route.

    Guests do not share them: what an API sends after the end of an answer is read as the next one.
    """

    def __init__(self, route: Route) -> None:
        # httpx has no option for a backend. Without super() there is no other pool to fall back to.
        self._pool = httpcore.AsyncConnectionPool(
            route.context,
            max_connections=None,
            keepalive_expiry=3.0,
            network_backend=CheckedNetwork(route),
        )

    @asynccontextmanager
    async def answer(
        self, request: httpx.Request, auth: httpx.Auth
    ) -> AsyncIterator[httpx.Response]:
        """The answer, whose body can be read within the block; raises Refused and httpx.HTTPError.

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
                        yield answer
                        return
