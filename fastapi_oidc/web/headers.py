"""Headers of requests and responses: cookies, access tokens, caching."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final

from starlette.exceptions import HTTPException

from fastapi_oidc.protocol.dpop import Scheme
from fastapi_oidc.session.cookies import CookieNames

NO_STORE: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
"""Caches must not store the response (RFC 9111 5.2.2.5), nor browsers guess its type."""

UNREFERRED: Final = NO_STORE | {"Referrer-Policy": "no-referrer"}
"""Also, the next site does not get the URL, which may have a code or state (RFC 9700 4.2.4)."""

MOST_ESCAPES: Final = 1000
"""Maximum number of backslashes in a request's cookies for a slow parser; 60 kB take seconds."""

_BLANK: Final = b" \t"
_PARSER_IS_SLOW = sys.version_info < (3, 11, 10) or (3, 12) <= sys.version_info < (3, 12, 6)
"""Whether this Python lacks the fix of CVE-2024-7592."""

_SCHEMES: Final[dict[bytes, Scheme]] = {b"bearer": "Bearer", b"dpop": "DPoP"}


def token_scheme_in(headers: Iterable[tuple[bytes, bytes]]) -> Scheme | None:
    """The scheme of the first Authorization header that has a token, well-formed or not.

    RFC 6750 2.1, RFC 9449 7.1.
    """
    for name, line in headers:
        if name == b"authorization":
            scheme = _SCHEMES.get(line.partition(b" ")[0].lower())
            if scheme is not None:
                return scheme
    return None


def require_parsable(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Refuse cookies that would block the process: FastAPI parses all cookies of every request.

    Raises HTTPException (431), only on Python versions whose cookie parser takes quadratic time.
    """
    if not _PARSER_IS_SLOW:
        return
    escapes = 0
    for header, line in headers:
        if header == b"cookie" and b"\\" in line:
            escapes += line.count(b"\\")
    if escapes > MOST_ESCAPES:
        raise HTTPException(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, headers=NO_STORE)


def has_cookie(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bool:
    """Whether there is, or seems to be, a cookie of this name."""
    for header, line in headers:  # noqa: SIM110 - at every request
        if header == b"cookie" and name in line:
            return True
    return False


def own_cookies(headers: Iterable[tuple[bytes, bytes]], names: CookieNames) -> dict[str, str]:
    """The cookies of this instance, parsed in linear time. Other cookies are not parsed.

    The header may be repeated (RFC 9113 8.2.3). The last of several cookies with the same name
    counts: browsers send cookies with longer paths first, and ours have the shortest path (RFC 6265
    5.4). Quotes around a value are removed; nothing inside is unescaped.
    """
    found: dict[str, str] = {}
    for header, line in headers:
        if header == b"cookie":
            for pair in _pairs(line):
                octets, _, value = pair.partition(b"=")
                name = octets.strip(_BLANK).decode("latin-1")
                if name == names.session or names.is_ours(name):
                    text = value.strip(_BLANK).decode("latin-1")
                    is_quoted = len(text) > 1 and text[0] == text[-1] == '"'
                    found[name] = text[1:-1] if is_quoted else text
    return found


def _pairs(line: bytes) -> list[bytes]:
    """Like `line.split(b";")`, but faster: that checks every byte, and a session has thousands."""
    pairs, start = [], 0
    while (end := line.find(b";", start)) >= 0:
        pairs.append(line[start:end])
        start = end + 1
    pairs.append(line[start:])
    return pairs
