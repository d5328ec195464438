"""Request targets, normalised once (RFC 3986 6.2.2), and the patterns that they match."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Final
from urllib.parse import unquote, unquote_plus

from fastapi_oidc.broker.access import Refused
from fastapi_oidc.errors import Code, misconfigured

_PATH: Final = re.compile(r"/(?:[\w\-.~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})*", re.ASCII)
_QUERY: Final = re.compile(r"(?:[\w\-.~!$&'()*+,;=:@/?\[\]{}|^]|%[0-9A-Fa-f]{2})*", re.ASCII)
_ESCAPE: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_UNRESERVED: Final = re.compile(r"[\w\-.~]", re.ASCII)
_DISGUISED: Final = re.compile(
    r"%(?:2F|5C|[01][0-9A-F]|7F|25(?:2E|2F|5C))|//|/\.\.?;", re.IGNORECASE
)
"""What servers read in different ways: encoded slashes, control characters, a dot or slash that is
encoded twice, empty segments, and dot segments with a parameter.
"""
_SUFFIX: Final = re.compile(r"\.\w+\Z")
_OVERRIDING: Final = frozenset(("_method", "access_token"))
"""Names of parameters that would compete with the method and the token of the call."""
_CALL: Final = re.compile(r"(?!TRACE |CONNECT )[A-Z]+ ((?:/(?:\*|[^*/\s]+))*(?:/|/\*\*)?)")


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


def readable_query(raw: bytes) -> str:
    """The query, which is passed on as it is; raises Refused (broker.request).

    A token in the query (RFC 6750 2.3) would compete with the one that the broker sends, and some
    frameworks read the method there. PHP reads `access.token` and ` access_token` as that name too.
    """
    query = raw.decode("latin-1")
    names = {_name_in(pair) for pair in re.split("[&;]", query)}
    if not _QUERY.fullmatch(query) or names & _OVERRIDING:
        explanation = "the query has a token or a method, or is no query of RFC 3986"
        raise Refused(Code.BROKER_REQUEST, explanation)
    return query


def _name_in(pair: str) -> str:
    name = unquote_plus(pair.partition("=")[0]).lstrip().lower()
    return re.sub(r"[ .\[]", "_", name)


def pattern_of(calls: Iterable[str]) -> re.Pattern[str]:
    """The pattern of texts such as "GET /events/1" that one of `calls` allows.

    In the path of a call, `*` is any one segment, and a final `**` one or more of them.
    """
    return re.compile("|".join(map(_expression, calls)))


def require_call(text: object) -> str:
    """The text, if it is like "GET /events/*"; raises ConfigurationError.

    An API answers TRACE with the token that was sent (RFC 9110 9.3.8); CONNECT has no path.
    """
    found = _CALL.fullmatch(text) if isinstance(text, str) else None
    with suppress(Refused):
        if found is not None and normalised(found[1].encode()) == found[1]:
            return found[0]
    explanation = (
        f'{text!r} is no method and normalised path, such as "GET /events/*": `*` is a whole '
        "segment, and `**` the last"
    )
    raise misconfigured(explanation)


def loosely(call: str) -> str:
    """The call as an API reads it that ignores case, a final slash, parameters and escapes.

    Escapes may be those of escapes, and some file systems drop the spaces and dots at an end.
    """
    return "/".join(map(_loose, call.split("/"))).rstrip("/").casefold()


def readings(call: str) -> tuple[str, str]:
    """The call read loosely, also by an API for which `/events.json` is a format of `/events`."""
    loose = loosely(call)
    return loose, _SUFFIX.sub("", loose)


def _loose(segment: str) -> str:
    for _ in range(3):  # proxies in a row that decode
        segment = unquote(segment)
    return segment.partition(";")[0].rstrip(". ")


def _expression(call: str) -> str:
    *first, last = call.split("/")
    segments = ["[^/]+" if each == "*" else re.escape(each) for each in first]
    wild = {"*": "[^/]+", "**": "[^/].*"}
    return "/".join([*segments, wild.get(last, re.escape(last))])


def _unescaped(escape: re.Match[str]) -> str:
    character = chr(int(escape[0][1:], 16))
    return character if _UNRESERVED.match(character) else escape[0].upper()
