"""Connections to the APIs: a name is resolved, and the checked address itself is connected to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, Final, TypeAlias

import httpcore
import httpx

from fastapi_oidc.broker.access import Refused
from fastapi_oidc.broker.route import Network, Route
from fastapi_oidc.concurrency import SingleFlight
from fastapi_oidc.errors import Code

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host and port."""

CONNECT_SECONDS: Final = 10.0
"""Seconds for the look-up of a name, and for a connection to an address."""

_KEEP_ALIVE: Final = 3.0
_MOST_CONNECTIONS: Final = 100


_UNICAST: Final = ip_network("2000::/3")
"""All public IPv6 addresses so far. Outside are others that lead to IPv4 (RFC 4291, 6052, 7915)."""

_NEVER_WORDS: Final = "168.63.129.16/32 192.0.0.0/24 2002::/16 2001::/32 3fff::/20"
_NEVER: Final = tuple(map(ip_network, _NEVER_WORDS.split()))
"""Not private for every Python: metadata of Azure (at a public address) and of Oracle, IPv4 inside
of IPv6 (RFC 3056 and 4380), and addresses of documentation (RFC 9637).
"""

_LOOK_UPS: Final[SingleFlight[tuple[str, int], Sequence[str]]] = SingleFlight()


def is_callable(
    address: IPv4Address | IPv6Address, networks: Iterable[Network], *, encrypted: bool = True
) -> bool:
    """Whether an address is in a network that the route names or, `encrypted`, is public."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if any(address in network for network in networks):
        return True
    is_public = address.is_global and not address.is_multicast
    if isinstance(address, IPv6Address) and address not in _UNICAST:
        return False
    return encrypted and is_public and not any(address in network for network in _NEVER)


async def resolved(host: str, port: int) -> Sequence[str]:
    """The addresses of a host, by the system.

    A look-up has a thread until it ends. So each name is looked up once at a time: while its name
    server is silent, it has one of the threads, and not all.
    """

    async def look_up() -> Sequence[str]:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))

    return await _LOOK_UPS.run((host, port), look_up)


class CheckedNetwork(httpcore.AnyIOBackend):
    """Connects to addresses that are public, or in the networks that the route names.

    httpcore asks for a connection to a name, and checks the certificate for that name. The checked
    address itself is connected to, so a second answer of the name server changes nothing.
    """

    def __init__(self, route: Route, resolve: Resolve) -> None:
        self._route, self._resolve = route, resolve

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

    async def _checked(self, host: str, port: int) -> Sequence[str]:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                found = await self._resolve(host, port)
        except (OSError, UnicodeError, TimeoutError) as error:
            raise httpcore.ConnectError("the host name is not found") from error
        encrypted = self._route.url.startswith("https:")
        for address in map(ip_address, found):
            if not is_callable(address, self._route.named_networks, encrypted=encrypted):
                explanation = f"{host} has an address that is not public, and the route names none"
                raise Refused(Code.BROKER_ADDRESS, explanation)
        return found


class Connections(httpx.AsyncHTTPTransport):
    """The connections of one guest to the API of one route.

    Guests do not share them: what an API sends after the end of an answer is read as the next one.
    """

    def __init__(self, route: Route, resolve: Resolve) -> None:
        # httpx has no option for a backend. Without super() there is no other pool to fall back to.
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=route.context,
            max_connections=_MOST_CONNECTIONS,
            keepalive_expiry=_KEEP_ALIVE,
            network_backend=CheckedNetwork(route, resolve),
        )

    async def send(self, request: httpx.Request, auth: httpx.Auth) -> httpx.Response:
        """The answer, whose body is not read yet; raises Refused and httpx.HTTPError.

        There is no client around the connections: it would follow redirects, keep the API's
        cookies, and write the query into its log.
        """
        async with aclosing(auth.async_auth_flow(request)) as flow:
            request = await anext(flow)
            while True:
                answer = await self.handle_async_request(request)
                answer.request = request
                try:
                    request = await flow.asend(answer)
                except StopAsyncIteration:
                    return answer
                except BaseException:
                    await answer.aclose()
                    raise
                await answer.aclose()
