"""How the connections to one provider are made, where the defaults do not do."""

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
    """What `OIDC(..., http=...)` takes to reach its provider.

    `ca_file` is a PEM file of the authorities that are trusted, and no others. A client certificate
    (PEM, with its key in the same file or in `client_certificate_key_file`) is shown to the
    provider, at its `mtls_endpoint_aliases` where it has them (RFC 8705); with an `ssl_context`,
    which replaces these files, `mutual_tls` says whether it has one. `proxy` is a URL; without it,
    and with `trust_env`, the proxy and the authorities of the environment are used (`HTTPS_PROXY`,
    `NO_PROXY`, `SSL_CERT_FILE`). `max_connections` limits the connections that are open at once.
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
        """Whether the endpoints for clients with a certificate are the ones to ask."""
        return self.mutual_tls or self.client_certificate_file is not None

    def __post_init__(self) -> None:
        """Refuses a proxy that is none (ConfigurationError, configuration.invalid)."""
        if self.proxy is not None and not self.proxy.startswith(_PROXY_SCHEMES):
            schemes = ", ".join(_PROXY_SCHEMES)
            raise ConfigurationError(
                Code.CONFIGURATION_INVALID, f"proxy is a URL that begins with {schemes}"
            )

    def verification(self) -> ssl.SSLContext | bool:
        """What httpx takes as `verify`.

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
                    # Without a password OpenSSL would ask for one at the terminal.
                    self.client_certificate_password or "",
                )
        return context

    def proxy_for(self, url: str) -> str | None:
        """Host and port of the proxy by which `url` is asked; no credentials."""
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
        # Without the file's name: what stands there by mistake may be the key itself.
        explanation = f"{option}: cannot be used: {reason}"
        raise ConfigurationError(Code.CONFIGURATION_KEY_UNUSABLE, explanation) from None


def _proxy_of_environment(url: str) -> str | None:
    address, proxies = urlsplit(url), getproxies()
    if proxy_bypass(address.hostname or ""):
        return None
    return proxies.get(address.scheme) or proxies.get("all")
