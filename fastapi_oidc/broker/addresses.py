"""Connections to checked addresses: a name is resolved, and the checked answer is connected to."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

import httpx

from fastapi_oidc.broker.limits import Refused
from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.ttl_cache import TTLCache

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network
Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host and port."""

CONNECT_SECONDS: Final = 10.0
"""Seconds for a connection to an API."""

RESOLVED_SECONDS: Final = 30
"""Seconds for which checked addresses are connected to without another look-up."""

_TIMES: Final = {"connect": CONNECT_SECONDS, "pool": None, "read": None, "write": None}
_KEEP_ALIVE: Final = 3.0
_NEVER: Final = tuple(
    map(
        ip_network,
        (
            "168.63.129.16/32",  # Azure's metadata, at a public address
            "192.0.0.0/24",  # Oracle's, in a network that not every Python calls private
            "fec0::/10",
            "::/96",  # IPv4 inside of IPv6: RFC 4291, 6052, 3056 and 4380
            "64:ff9b::/96",
            "64:ff9b:1::/48",
            "2002::/16",
            "2001::/32",
        ),
    )
)


def parsed_networks(networks: Sequence[str]) -> tuple[Network, ...]:
    """The networks; raises ConfigurationError (configuration.invalid)."""
    try:
        return tuple(map(ip_network, networks))
    except ValueError as error:
        explanation = f"networks of a Route: {error}"
        raise ConfigurationError(Code.CONFIGURATION_INVALID, explanation) from None


def is_callable(address: Address, networks: Sequence[Network], *, encrypted: bool = True) -> bool:
    """Whether an address is in a network that the route names or, `encrypted`, is public."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if any(address in network for network in networks):
        return True
    is_public = address.is_global and not address.is_multicast
    return encrypted and is_public and not any(address in network for network in _NEVER)


async def resolved(host: str, port: int) -> Sequence[str]:
    """The addresses of a host, by the system."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class CheckedTransport(httpx.AsyncBaseTransport):
    """Sends requests to addresses that are public, or in the `networks` of the route.

    The checked address itself is connected to, so a second answer of the name server changes
    nothing. The certificate is still checked for the name. Each route has connections of its own,
    because a connection is found by its address.
    """

    def __init__(
        self,
        networks: Sequence[Network],
        clock: Clock,
        verify: ssl.SSLContext | bool = True,
        resolve: Resolve = resolved,
    ) -> None:
        self._networks, self._clock, self._resolve = networks, clock, resolve
        self._known: TTLCache[str, Sequence[str]] = TTLCache(clock, max_entries=100)
        limits = httpx.Limits(keepalive_expiry=_KEEP_ALIVE)
        self._http = httpx.AsyncHTTPTransport(verify=verify, trust_env=False, limits=limits)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Raises Refused (broker.address), and the errors of httpx."""
        for address in (addresses := await self._addresses(request.url)):
            try:
                response = await self._http.handle_async_request(_to(address, request))
            except (httpx.ConnectError, httpx.ConnectTimeout):  # nothing was sent
                if address == addresses[-1]:
                    raise
            else:
                response.request = request
                return response
        raise httpx.ConnectError("the host name has no address")

    async def send(self, request: httpx.Request, auth: httpx.Auth) -> httpx.Response:
        """The answer, whose body is not read yet.

        There is no client around this: that would follow redirects, keep the API's cookies, and
        write the query into its log.
        """
        flow = auth.async_auth_flow(request)
        try:
            request = await anext(flow)
            while True:
                answer = await self.handle_async_request(request)
                try:
                    request = await flow.asend(answer)
                except StopAsyncIteration:
                    return answer
                except BaseException:
                    await answer.aclose()
                    raise
                await answer.aclose()
        finally:
            await flow.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _addresses(self, url: httpx.URL) -> Sequence[str]:
        host, port = url.host, url.port or {"https": 443}.get(url.scheme, 80)
        if (known := self._known.get(host)) is not None:
            return known
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                found = await self._resolve(host, port)
        except (OSError, UnicodeError, TimeoutError) as error:
            raise httpx.ConnectError(f"the host name is not found: {error}") from error
        encrypted, addresses = url.scheme == "https", map(ip_address, found)
        if not all(is_callable(each, self._networks, encrypted=encrypted) for each in addresses):
            explanation = f"{host} has an address that is not public, and the route names none"
            raise Refused(Code.BROKER_ADDRESS, explanation)
        self._known.set(host, found, expires_at=self._clock.now() + RESOLVED_SECONDS)
        return found


def _to(address: str, request: httpx.Request) -> httpx.Request:
    """The request to an address. Its `Host` is the name, and so is the certificate's."""
    return httpx.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers.raw,  # with the proof of a bound token, which is not copied
        stream=request.stream,
        extensions={"sni_hostname": request.url.host, "timeout": _TIMES},
    )
