"""What one name in a guest stands for."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import httpx

from fastapi_oidc.broker.access import Access
from fastapi_oidc.broker.paths import loosely, normalised, pattern_of, readings, require_call
from fastapi_oidc.errors import ConfigurationError, misconfigured
from fastapi_oidc.protocol.downstream import ActorToken, Target
from fastapi_oidc.protocol.urls import URLFault, fault_of_url

Network: TypeAlias = IPv4Network | IPv6Network
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

    target: Target = field(init=False, repr=False)
    named_networks: tuple[Network, ...] = field(init=False, repr=False)
    passed: frozenset[str] = field(init=False, repr=False)
    allowed: re.Pattern[str] = field(init=False, repr=False)
    approved: re.Pattern[str] = field(init=False, repr=False)
    context: ssl.SSLContext = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Parse every member."""
        for name in ("allow", "approve", "headers", "networks"):
            if isinstance(getattr(self, name), str):
                raise _invalid(f"{name} is a list of texts")
        headers = {name.lower() for name in self.headers}
        for name in headers:
            if name in _NEVER_PASSED or not _HEADER.fullmatch(name):
                raise _invalid(f"a header that cannot pass: {name}")
        target = Target(audience=self.audience, resource=self.resource, scope=self.scope)
        if [not target.is_empty, self.own_token, self.auth is not None].count(True) != 1:
            raise _invalid("give one of audience, resource and scope; or own_token; or auth")
        if not isinstance(self.auth, httpx.Auth | None):
            raise _invalid("auth is an httpx.Auth, such as httpx.BasicAuth(...)")
        if self.actor is not None and target.is_empty:
            raise _invalid("actor is for a token of a downstream API")
        if not self.allow:
            raise _invalid("allow is empty, so no call could pass")
        set_once = object.__setattr__
        set_once(self, "target", target)
        set_once(self, "named_networks", _networks_of(self.url, self.networks))
        set_once(self, "url", _base_of(self.url, self.named_networks))
        set_once(self, "context", httpx.create_ssl_context(self.verify, trust_env=False))
        set_once(self, "passed", _PASSED | headers)
        set_once(self, "allowed", pattern_of(map(require_call, self.allow)))
        set_once(self, "approved", pattern_of(map(loosely, map(require_call, self.approve))))
        allow = [*map(loosely, self.allow)]
        for call in map(loosely, self.approve):  # a misspelled one would pass without the person
            one, all_allowed = pattern_of([call]), pattern_of(allow)
            if not all_allowed.fullmatch(call) and not any(map(one.fullmatch, allow)):
                raise _invalid(f"approve has {call!r}, which matches no call of allow")

    def allows(self, method: str, path: str) -> bool:
        """Whether a guest may make this call; `path` is normalised."""
        return self.allowed.fullmatch(f"{method} {path}") is not None

    def needs_approval(self, method: str, path: str) -> bool:
        """Whether the call waits for the person, also if only some APIs would read it so."""
        return any(map(self.approved.fullmatch, readings(f"{method} {path}")))


def require_name(name: str) -> None:
    """Raise ConfigurationError unless a guest can ask for this name."""
    if not _NAME.fullmatch(name):
        raise _invalid(f"{name!r} is no host name in lower case")


def _networks_of(url: str, networks: Sequence[str]) -> tuple[Network, ...]:
    """The networks, and the address that the URL itself names."""
    try:
        named = [ip_network(urlsplit(url).hostname or "")]
    except ValueError:
        named = []
    try:
        return (*named, *map(ip_network, networks))
    except ValueError as error:
        raise _invalid(str(error)) from None


def _base_of(url: str, networks: Sequence[Network]) -> str:
    """The URL without a slash at its end."""
    is_private = any(not network.is_global for network in networks)
    fault = fault_of_url(url, allow_insecure_http=is_private)
    if fault is URLFault.INSECURE:
        raise _invalid("url must begin with https: tokens are sent there")
    if fault is not None or "?" in url:
        raise _invalid("url must have a host, and no user, query and fragment")
    path = urlsplit(url).path.rstrip("/")
    if path and normalised(path.encode()) != path:
        raise _invalid("the path of url is not normalised")
    return url.rstrip("/")


def _invalid(explanation: str) -> ConfigurationError:
    return misconfigured(f"Route: {explanation}")
