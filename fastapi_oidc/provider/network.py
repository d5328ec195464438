"""Connections to providers, and their options."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import httpx

from fastapi_oidc.concurrency import PerLoop
from fastapi_oidc.errors import Code, ConfigurationError, ProviderError, misconfigured
from fastapi_oidc.protocol.refusal import cleaned

_PROXY_SCHEMES: Final = ("http://", "https://", "socks5://", "socks5h://")
File: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class HTTPOptions:
    """The options of `OIDC(..., http=...)` for the connections to its provider.

    `ca_file` is a PEM file with the only certificate authorities to trust. The client certificate
    (PEM, with its key in the same file or in `client_certificate_key_file`) is sent to the
    provider, at its `mtls_endpoint_aliases` if it has them (RFC 8705). An `ssl_context` replaces
    these files; `mutual_tls` then says whether it has a client certificate.

    `proxy` is a URL. Without it, and with `trust_env`, the proxy and the authorities of the
    environment are used (`HTTPS_PROXY`, `NO_PROXY`, `SSL_CERT_FILE`). `max_connections` limits the
    number of open connections.
    """

    ca_file: File | None = None
    client_certificate_file: File | None = None
    client_certificate_key_file: File | None = None
    client_certificate_password: str | None = field(default=None, repr=False)
    ssl_context: ssl.SSLContext | None = None
    mutual_tls: bool = False
    proxy: str | None = field(default=None, repr=False)
    trust_env: bool = True
    max_connections: int | None = None

    @property
    def shows_certificate(self) -> bool:
        """Whether to use the endpoints for clients with a certificate."""
        return self.mutual_tls or self.client_certificate_file is not None

    def __post_init__(self) -> None:
        """Refuses an invalid proxy (ConfigurationError, configuration.invalid)."""
        if self.proxy is not None and not self.proxy.startswith(_PROXY_SCHEMES):
            raise misconfigured("proxy must be a URL of http, https, socks5 or socks5h")

    def verification(self) -> ssl.SSLContext | bool:
        """The `verify` argument of httpx.

        Raises ConfigurationError (configuration.key_unusable) for files that cannot be used.
        """
        if self.ssl_context is not None:
            return self.ssl_context
        if self.ca_file is None and self.client_certificate_file is None:
            return True
        option = "ca_file"
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            option = "client_certificate_file"
            if self.client_certificate_file is not None:
                context.load_cert_chain(
                    self.client_certificate_file,
                    self.client_certificate_key_file,
                    # Without a password OpenSSL would prompt for one in the terminal.
                    self.client_certificate_password or "",
                )
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or "no PEM"
            # Without the file's name, which may be the key itself by mistake.
            explanation = f"{option} cannot be used: {reason}"
            raise ConfigurationError(Code.CONFIGURATION_KEY_UNUSABLE, explanation) from None
        return context


_KEEP_ALIVE: Final = 3.0
"""Seconds for which an idle connection is reused. Common servers close it after five, and a request
on a closing connection is not repeated.
"""


class Network:
    """All connections of an application. Providers with equal options share theirs.

    So what is known of one provider holds no connections, and can be forgotten at any time. A
    `transport` replaces the network; one of another library raises ConfigurationError.
    """

    def __init__(self, transport: httpx.AsyncBaseTransport | None = None) -> None:
        # The errors of another library, such as httpx2, are not httpx errors.
        if transport is not None and not isinstance(transport, httpx.AsyncBaseTransport):
            raise misconfigured("give an async transport of httpx, as httpx.ASGITransport is")
        self._transport = transport
        self._verification: dict[HTTPOptions, ssl.SSLContext | bool] = {}
        self._clients: PerLoop[dict[HTTPOptions, httpx.AsyncClient]] = PerLoop(dict)

    def prepare(self, options: HTTPOptions) -> None:
        """Read the files in `options`, without other I/O; raises ConfigurationError."""
        if options not in self._verification:
            self._verification[options] = options.verification()

    def client(self, options: HTTPOptions) -> httpx.AsyncClient:
        """The pooled client of this event loop; raises ProviderError for an unusable proxy."""
        clients = self._clients.here()
        try:
            if options not in clients:
                clients[options] = self._new_client(options)
        except (ValueError, ImportError) as error:
            explanation = f"the proxy cannot be used: {cleaned(str(error))}"
            raise ProviderError(Code.PROVIDER_UNREACHABLE, explanation) from error
        return clients[options]

    async def aclose(self) -> None:
        """Close the pooled connections of this event loop. A later call opens new ones."""
        for client in (self._clients.forget() or {}).values():
            await client.aclose()

    def _new_client(self, options: HTTPOptions) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            transport=self._transport,
            verify=self._verification[options],
            proxy=options.proxy,
            trust_env=options.trust_env,
            follow_redirects=False,
            limits=httpx.Limits(
                max_connections=options.max_connections,
                max_keepalive_connections=20,
                keepalive_expiry=_KEEP_ALIVE,
            ),
        )
