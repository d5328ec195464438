"""The pooled connections of an application to its providers."""

from __future__ import annotations

import asyncio
from typing import Final

import httpx

from fastapi_oidc.errors import Code, ConfigurationError, ProviderError
from fastapi_oidc.protocol.error_text import cleaned
from fastapi_oidc.provider.options import HTTPOptions

_KEEP_ALIVE: Final = 3.0
"""Seconds for which an idle connection is reused. Common servers close it after five, and a request
on a closing connection is not repeated.
"""


class Connections:
    """Pooled connections with the same `options`. A `transport` replaces the network.

    The initializer reads the files in `options` and does no other I/O. It raises
    ConfigurationError.
    """

    def __init__(
        self,
        options: HTTPOptions | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._options, self._transport = options or HTTPOptions(), transport
        self._verify = self._options.verification()
        self._client: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def client(self) -> httpx.AsyncClient:
        """The pooled client; a new one if the event loop has changed, as between tests.

        Raises ProviderError for an unusable proxy.
        """
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            try:
                self._client, self._loop = self._new_client(), loop
            except (ValueError, ImportError) as error:
                explanation = f"the proxy cannot be used: {cleaned(str(error))}"
                raise ProviderError(Code.PROVIDER_UNREACHABLE, explanation) from error
        return self._client

    def proxy_for(self, url: str) -> str | None:
        """The host and port of the proxy for `url`, without credentials."""
        return None if self._transport else self._options.proxy_for(url)

    async def aclose(self) -> None:
        """Close the pooled connections. A later call opens new ones."""
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await client.aclose()

    def _new_client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            transport=self._transport,
            verify=self._verify,
            proxy=self._options.proxy,
            trust_env=self._options.trust_env,
            follow_redirects=False,
            limits=httpx.Limits(
                max_connections=self._options.max_connections,
                max_keepalive_connections=20,
                keepalive_expiry=_KEEP_ALIVE,
            ),
        )


class Network:
    """All connections of an application. Providers with equal options share theirs.

    So what is known of one provider holds no connections, and can be forgotten at any time. Raises
    ConfigurationError for a `transport` of another library.
    """

    def __init__(self, transport: httpx.AsyncBaseTransport | None = None) -> None:
        _require_transport(transport)
        self._transport = transport
        self._with: dict[HTTPOptions, Connections] = {}

    def connections(self, options: HTTPOptions) -> Connections:
        """The connections with these options; raises ConfigurationError."""
        if options not in self._with:
            self._with[options] = Connections(options, transport=self._transport)
        return self._with[options]

    async def aclose(self) -> None:
        """Close all pooled connections. A later call opens new ones."""
        for connections in [*self._with.values()]:
            await connections.aclose()


def _require_transport(transport: object) -> None:
    """Refuse a transport of another library, such as httpx2: its errors are not httpx errors."""
    if transport is not None and not isinstance(transport, httpx.AsyncBaseTransport):
        kind = f"{type(transport).__module__}.{type(transport).__qualname__}"
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID,
            f"transport is a {kind}; give an async transport of httpx, as httpx.ASGITransport is",
        )
