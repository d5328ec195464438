"""What one name in a guest stands for."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import httpx

from fastapi_oidc.broker.addresses import Network, parsed_networks
from fastapi_oidc.broker.paths import Pattern, normalised
from fastapi_oidc.broker.rules import Access
from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.protocol.downstream import ActorToken, Target

Actor: TypeAlias = Callable[[Access], Coroutine[Any, Any, ActorToken]]
"""Returns the token that says that a machine acts (RFC 8693 2.1)."""

_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_HEADER: Final = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")

_WORDS: Final = (
    "accept accept-encoding accept-language content-encoding content-language content-type "
    "idempotency-key if-match if-modified-since if-none-match if-range if-unmodified-since "
    "last-event-id mcp-protocol-version mcp-session-id prefer range user-agent"
)
_PASSED: Final = frozenset(_WORDS.split())
"""Headers of a guest that reach every API. Others may change what a request means, as
`X-HTTP-Method-Override` and `X-Original-URL` do.
"""
_HOP_WORDS: Final = (
    "connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    "transfer-encoding upgrade"
)
HOP_BY_HOP: Final = frozenset(_HOP_WORDS.split())
"""RFC 9110 7.6.1, and those of earlier specifications."""

_NEVER_WORDS: Final = "authorization content-length cookie dpop expect forwarded host set-cookie"
_NEVER_PASSED: Final = HOP_BY_HOP.union(_NEVER_WORDS.split())


@dataclass(frozen=True, kw_only=True)
class Route:
    """An API at `url`, and the calls of it that a guest may make.

    `allow` lists methods with paths below `url`, such as "GET /events/*": `*` is one segment, and a
    final `**` one or more. Calls that match `approve`, too, wait for the person. `headers` are
    further request headers that pass.

    `audience`, `resource` and `scope` select one of the `downstream_apis`, as in `oidc.auth`;
    `own_token` sends the session's own token instead, and `auth` replaces the person's token.
    `actor` returns the actor token of a machine for a token exchange (RFC 8693 4.1).

    `url` begins with https, unless it has a private address or `networks`: only those networks (as
    "10.0.0.0/8") and public addresses are called. Raises ConfigurationError.
    """

    url: str
    allow: Sequence[str]
    approve: Sequence[str] = ()
    audience: str | None = None
    resource: str | None = None
    scope: str | Sequence[str] = ()
    own_token: bool = False
    auth: httpx.Auth | None = field(default=None, repr=False)
    actor: Actor | None = None
    headers: Sequence[str] = ()
    networks: Sequence[str] = ()
    verify: ssl.SSLContext | bool = True

    def __post_init__(self) -> None:
        """Parse every member."""
        for name in ("allow", "approve", "headers", "networks"):
            if isinstance(getattr(self, name), str):
                raise _invalid(f"{name} is a list of texts")
        networks = parsed_networks([*self.networks, *_literal(self.url)])
        passed = {name.lower() for name in self.headers}
        if bad := {each for each in passed if each in _NEVER_PASSED or not _HEADER.fullmatch(each)}:
            raise _invalid(f"headers that cannot pass: {', '.join(sorted(bad))}")
        target = Target(audience=self.audience, resource=self.resource, scope=self.scope)
        if [not target.is_empty, self.own_token, self.auth is not None].count(True) != 1:
            raise _invalid("give one of audience, resource and scope; or own_token; or auth")
        if self.actor is not None and target.is_empty:
            raise _invalid("actor is for a token of a downstream API")
        set_once = object.__setattr__
        set_once(self, "target", target)
        set_once(self, "named_networks", networks)
        set_once(self, "base", _base_of(self.url, networks))
        set_once(self, "allowed", tuple(map(Pattern.parse, self.allow)))
        set_once(self, "approved", tuple(map(Pattern.parse, self.approve)))
        set_once(self, "passed", _PASSED | passed)

    target: Target = field(init=False, repr=False)
    named_networks: tuple[Network, ...] = field(init=False, repr=False)
    base: httpx.URL = field(init=False, repr=False)
    allowed: tuple[Pattern, ...] = field(init=False, repr=False)
    approved: tuple[Pattern, ...] = field(init=False, repr=False)
    passed: frozenset[str] = field(init=False, repr=False)

    def allows(self, method: str, path: str) -> bool:
        """Whether a guest may make this call; `path` is normalised."""
        return any(pattern.matches(method, path) for pattern in self.allowed)

    def needs_approval(self, method: str, path: str) -> bool:
        """Whether the call waits for the person, also if only some APIs would read it so."""
        return any(pattern.may_mean(method, path) for pattern in self.approved)


def require_name(name: str) -> None:
    """Refuse a name that no guest could ask for (ConfigurationError, configuration.invalid)."""
    if not _NAME.fullmatch(name):
        raise _invalid(f"{name!r} is no host name in lower case")


def _literal(url: str) -> list[str]:
    """The address that the URL itself names."""
    try:
        return [str(ip_address(urlsplit(url).hostname or ""))]
    except ValueError:
        return []


def _base_of(url: str, networks: Sequence[Network]) -> httpx.URL:
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http") or not parts.hostname or parts.query or parts.fragment:
        raise _invalid(f"url {parts.scheme}://... must be an https URL of a host and a path")
    if parts.username is not None or parts.password is not None:
        raise _invalid("url has a user or password")
    is_private = any(not network.is_global for network in networks)
    if parts.scheme == "http" and not is_private:
        raise _invalid("url must begin with https: tokens are sent there")
    path = parts.path.rstrip("/")
    if path and normalised(path.encode()) != path:
        raise _invalid("the path of url is not normalised")
    return httpx.URL(url).copy_with(raw_path=(path or "/").encode())


def _invalid(explanation: str) -> ConfigurationError:
    return ConfigurationError(Code.CONFIGURATION_INVALID, f"Route: {explanation}")
