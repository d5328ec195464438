"""Options for the connections to a provider: certificates, proxies and limits."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from fastapi_oidc.errors import Code, ConfigurationError

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
            schemes = ", ".join(_PROXY_SCHEMES)
            raise ConfigurationError(
                Code.CONFIGURATION_INVALID, f"proxy must be a URL that begins with {schemes}"
            )

    def verification(self) -> ssl.SSLContext | bool:
        """The `verify` argument of httpx.

        Raises ConfigurationError (configuration.key_unusable) for files that cannot be used.
        """
        if self.ssl_context is not None:
            return self.ssl_context
        if self.ca_file is None and self.client_certificate_file is None:
            return True
        with _usable("ca_file"):
            context = ssl.create_default_context(cafile=self.ca_file)
        if self.client_certificate_file is not None:
            with _usable("client_certificate_file"):
                context.load_cert_chain(
                    self.client_certificate_file,
                    self.client_certificate_key_file,
                    # Without a password OpenSSL would prompt for one in the terminal.
                    self.client_certificate_password or "",
                )
        return context

    def proxy_for(self, url: str) -> str | None:
        """The host and port of the proxy for `url`, without credentials."""
        try:
            proxy = self.proxy or (_proxy_of_environment(url) if self.trust_env else None)
            return urlsplit(proxy).netloc.rpartition("@")[2] if proxy else None
        except ValueError:
            return None


@contextmanager
def _usable(option: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or "no PEM"
        # Without the file's name, which may be the key itself by mistake.
        explanation = f"{option}: cannot be used: {reason}"
        raise ConfigurationError(Code.CONFIGURATION_KEY_UNUSABLE, explanation) from None


def _proxy_of_environment(url: str) -> str | None:
    address, proxies = urlsplit(url), getproxies()
    if proxy_bypass(address.hostname or ""):
        return None
    return proxies.get(address.scheme) or proxies.get("all")
