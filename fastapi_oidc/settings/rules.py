"""The rules of single settings. Each raises ConfigurationError for an invalid value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import SecretStr

from fastapi_oidc.errors import Code, ConfigurationError, misconfigured
from fastapi_oidc.protocol.urls import (
    URLFault,
    fault_of_url,
    is_same_origin_path,
    travels_unencrypted,
)

_DEFAULT_PORT = re.compile(r"^https:.*:443/?$|^http:.*:80/?$")
_MUST_BE_HTTPS = "must be https; allow_insecure_http permits http for local development"
_STANDARD = frozenset(("openid", "profile", "email", "address", "phone", "offline_access"))
"""The scopes of Core 5.4 and 11."""
_SCOPE_TOKEN = re.compile(r"[!#-\[\]-~]+")

LONGEST_LIFETIME: Final = 400 * 86_400
"""Seconds after which browsers drop every cookie (RFC 6265bis 5.5)."""

CREDENTIALS = ("client_secret", "client_private_key")
"""Credentials from one provider, which must not be sent to another."""


def require_base_url(base_url: str | None, *, allow_insecure_http: bool) -> str | None:
    """Require scheme and host only; None is accepted for local development."""
    if base_url is not None:
        return require_origin(base_url, allow_insecure_http=allow_insecure_http)
    if not allow_insecure_http:
        raise misconfigured("is missing: redirect URIs are never made from request headers")
    return None


def unencrypted(base_url: str | None) -> str | None:
    """What is wrong with http at a host that is not this machine; None for anything else."""
    if not travels_unencrypted(base_url or ""):
        return None
    return (
        f"base_url is {base_url}, and not this machine: cookies and codes travel unencrypted. "
        "Use https, and remove allow_insecure_http"
    )


def odd_lifetime(seconds: int) -> str | None:
    """What may be wrong with a lifetime of weeks that is no number of whole days."""
    if seconds <= 14 * 86_400 or seconds % 86_400 == 0:
        return None
    return f"it is {seconds} seconds, {seconds / 86_400:.0f} days. Is it in milliseconds?"


def require_origin(origin: str, *, allow_insecure_http: bool) -> str:
    """Require scheme and host as browsers write them."""
    fault = fault_of_url(origin, allow_insecure_http=allow_insecure_http)
    if fault is URLFault.INSECURE:
        raise ConfigurationError(Code.CONFIGURATION_INSECURE_URL, _MUST_BE_HTTPS)
    if fault is not None or origin.rstrip("/").count("/") != 2 or "?" in origin:
        raise misconfigured("is scheme and host, as in https://app.example.com")
    if origin != origin.lower() or _DEFAULT_PORT.search(origin):
        raise misconfigured("must be as browsers write it: in lower case, without a default port")
    return origin


def require_origins(origins: Iterable[str], *, allow_insecure_http: bool) -> None:
    """Require scheme and host as in the `Origin` header (RFC 6454 6.2) for each origin."""
    for origin in origins:
        if require_origin(origin, allow_insecure_http=allow_insecure_http).endswith("/"):
            raise misconfigured("an origin must not end with a slash")


def require_no_margin(value: str | SecretStr | None) -> None:
    """Refuse the space or line break that comes along when a value is copied or read from a file.

    Neither a `client_id` nor a `client_secret` has line breaks (RFC 6749 A.1, A.2).
    """
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    if text is not None and text != text.strip():
        raise misconfigured("begins or ends with a space or a line break")


def require_idle_within(idle_timeout: int | None, settings: Mapping[str, Any]) -> None:
    """Require an idle timeout that a session can reach."""
    lifetime = settings.get("session_lifetime")
    if idle_timeout is not None and lifetime is not None and idle_timeout >= lifetime:
        raise misconfigured(f"must be shorter than session_lifetime, which is {lifetime} seconds")


def require_scope(scope: Iterable[str]) -> None:
    """Require the characters of RFC 6749 3.3 in each value: no space, quote or backslash."""
    if not all(_SCOPE_TOKEN.fullmatch(token) for token in scope):
        raise misconfigured(
            "has a value with a space, a quote or a backslash: each value is one word"
        )
    # A scope may contain a comma, but a standard scope between commas is in a list by mistake.
    if any("," in token and not _STANDARD.isdisjoint(token.split(",")) for token in scope):
        raise misconfigured("has commas: put spaces between the values")


def with_openid(scope: Iterable[str]) -> tuple[str, ...]:
    """The scope with `openid`, which makes a request one of OpenID Connect (Core 3.1.2.1)."""
    return tuple(dict.fromkeys(("openid", *scope)))


def require_post_logout_redirect_uri(uri: str, *, allow_insecure_http: bool) -> None:
    """Require `route`, `none` or an absolute URL."""
    if uri in ("route", "none"):
        return
    fault = fault_of_url(uri, allow_insecure_http=allow_insecure_http)
    if fault is URLFault.INSECURE:
        raise ConfigurationError(Code.CONFIGURATION_INSECURE_URL, _MUST_BE_HTTPS)
    if fault is not None:
        raise misconfigured('must be "route", "none" or an absolute URL')


def require_path(path: str) -> str:
    """Require a path of this application."""
    if not is_same_origin_path(path):
        raise misconfigured("must be a path of this application")
    return path


def require_own_credentials(current: Mapping[str, object], changes: Mapping[str, object]) -> None:
    """Require new credentials when a copy of the settings changes the issuer."""
    if changes.get("issuer", current.get("issuer")) == current.get("issuer"):
        return
    missing = [name for name in CREDENTIALS if current.get(name) and name not in changes]
    if missing:
        raise misconfigured(
            f"another issuer needs its own {', '.join(missing)}: pass it in `update`, "
            "or None if it has none"
        )
