"""What one name in a guest stands for, and the calls that it allows (RFC 3986 6.2.2)."""

from __future__ import annotations

import posixpath
import re
import ssl
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import reduce
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, urlsplit

import httpx

from fastapi_oidc.broker.access import Access, Refused
from fastapi_oidc.errors import Code, ConfigurationError, misconfigured
from fastapi_oidc.protocol.downstream import ActorToken, Target
from fastapi_oidc.protocol.urls import fault_of_url, travels_unencrypted

Network: TypeAlias = IPv4Network | IPv6Network
Actor: TypeAlias = Callable[[Access], Coroutine[Any, Any, ActorToken]]
"""Returns the token that says that a machine acts (RFC 8693 2.1)."""

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

_PATH: Final = re.compile(r"/(?:[\w\-.~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})*", re.ASCII)
_ESCAPE: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_UNRESERVED: Final = re.compile(r"[\w\-.~]", re.ASCII)
_DISGUISED: Final = re.compile(
    r"%(?:2F|5C|[01][0-9A-F]|7F|25(?:2E|2F|5C))|//|/\.\.?;", re.IGNORECASE
)
"""What servers read in different ways: encoded slashes, control characters, a dot or slash that is
encoded twice, empty segments, and dot segments with a parameter.
"""
_QUERY: Final = re.compile(rb'[!"$-~]*')
"""Without `#`: a person would see what follows, and no API would get it (RFC 9112 3.2)."""
_CALL: Final = re.compile(r"(?!TRACE |CONNECT )[A-Z]+ (/.*)")
"""An API answers TRACE with the token that was sent (RFC 9110 9.3.8); CONNECT has no path."""

_SLOW: Final = re.compile(r"\*\*[^/]*\*")
"""The one order of wildcards for which a path would be read once for each of its characters."""

MOST_PATH: Final = 8 * 1024
"""Bytes of a path, judged before all else is."""

MOST_TARGET: Final = 32 * 1024
"""Bytes of a path with its query."""


class Route:
    """An API at `url`, and the calls of it that a guest may make.

    `allow` lists methods with paths below `url`, such as "GET /events/*": `*` is a part of one
    segment, and `**` any number of segments. Those that `approve` repeats wait for the person.
    `headers` are further request headers that pass.

    `audience`, `resource` and `scope` select one of the `downstream_apis`, as in `oidc.auth`;
    `own_token` sends the session's own token instead, and `auth` replaces the person's token.
    `actor` returns the actor token of a machine for a token exchange (RFC 8693 4.1).

    `url` begins with https, unless it is on this host or `networks` are given. A name is called at
    public addresses and those in `networks` (as "10.0.0.0/8"). Raises ConfigurationError.
    """

    def __init__(
        self,
        url: str,
        *,
        allow: Sequence[str],
        approve: Sequence[str] = (),
        audience: str | None = None,
        resource: str | None = None,
        scope: str | Sequence[str] = (),
        own_token: bool = False,
        auth: httpx.Auth | None = None,
        actor: Actor | None = None,
        headers: Sequence[str] = (),
        networks: Sequence[str] = (),
        verify: ssl.SSLContext | bool = True,
    ) -> None:
        self.target = Target(audience=audience, resource=resource, scope=scope)
        if [not self.target.is_empty, own_token, auth is not None].count(True) != 1:
            raise _invalid("give one of audience, resource and scope; or own_token; or auth")
        if auth is not None and auth.requires_response_body:
            raise _invalid("auth reads whole answers, which may have no end")
        lists = {"allow": allow, "approve": approve, "headers": headers, "networks": networks}
        for name in (name for name, given in lists.items() if isinstance(given, str)):
            raise _invalid(f"{name} is a list: write {name}=[{lists[name]!r}]")
        if not allow:
            raise _invalid("allow has no call, so nothing is allowed")
        if not set(approve) <= set(allow):  # a misspelled one would pass without the person
            raise _invalid("approve has a call that allow has not")
        is_private = bool(networks) or not travels_unencrypted(url)
        if fault_of_url(url, allow_insecure_http=is_private) or "?" in url:
            raise _invalid("url must begin with https, and have no user, query and fragment")
        self.url, self.networks = url.rstrip("/"), [*map(ip_network, networks)]
        below = urlsplit(self.url).path
        for call in (each for each in allow if below and f" {below}/" in f"{each}/"):
            shorter = call.replace(below, "", 1)
            raise _invalid(f"{call!r} repeats the path of url: paths are below it, as {shorter!r}")
        self.allow, self.approve, self.auth, self.actor = allow, approve, auth, actor
        self.context = httpx.create_ssl_context(verify, trust_env=False)
        self.passed = _PASSED.union(map(str.lower, headers)) - _NEVER_PASSED
        self.allowed, self.approved = pattern_of(allow), pattern_of(approve)


def pattern_of(calls: Sequence[str]) -> re.Pattern[str]:
    """The pattern of texts such as "GET /events/1" that one of `calls` allows.

    Raises ConfigurationError for what could never match.
    """
    for call in calls:
        if _SLOW.search(call):
            raise _invalid(f"{call!r} has * behind ** in one segment")
        found = _CALL.fullmatch(call)
        with suppress(Refused):
            if found is not None and normalised(found[1].encode()) == found[1]:
                continue
        raise _invalid(f'{call!r} is no method and normalised path, such as "GET /events/*"')
    return re.compile("|".join(_joined(call, [("**", ".+?"), ("*", "[^/]+?")]) for call in calls))


def _joined(call: str, wildcards: Sequence[tuple[str, str]]) -> str:
    """The regular expression of a call.

    What is before a wildcard is taken where it ends first, and nowhere else: the wildcard matches
    all that it would match after a later end. So no path is tried in each of its divisions.
    """
    if not wildcards:
        return re.escape(call)
    (wildcard, some), *narrower = wildcards
    parts = [_joined(part, narrower) for part in call.split(wildcard)]
    return reduce(lambda before, part: f"(?>{before}){some}{part}", parts)


def normalised(raw: bytes) -> str:
    """The path with its escapes and dot segments resolved; raises Refused (broker.request).

    The result is what is matched and what is sent.
    """
    path = raw.decode("latin-1")
    if not _PATH.fullmatch(path):
        raise Refused(Code.BROKER_REQUEST, "the path is no path of RFC 3986")
    path = _ESCAPE.sub(_unescaped, path)
    if _DISGUISED.search(path):
        raise Refused(Code.BROKER_REQUEST, "servers would read the path in different ways")
    ends = "/" if path.endswith(("/", "/.", "/..")) else ""
    return posixpath.normpath(path).rstrip("/") + ends or "/"


def _unescaped(escape: re.Match[str]) -> str:
    character = chr(int(escape[0][1:], 16))
    return character if _UNRESERVED.match(character) else escape[0].upper()


def query_of(raw: bytes) -> str:
    """The query, as it is sent; raises Refused (broker.request).

    A token in it (RFC 6750 2.3) would compete with the one that is sent.
    """
    if not _QUERY.fullmatch(raw):
        raise Refused(Code.BROKER_REQUEST, "the query has a character that would not be sent")
    query = raw.decode("ascii")
    if "access_token" in dict(parse_qsl(query, keep_blank_values=True)):
        raise Refused(Code.BROKER_REQUEST, "the query has a token")
    return query


def _invalid(explanation: str) -> ConfigurationError:
    return misconfigured(f"Route: {explanation}")
