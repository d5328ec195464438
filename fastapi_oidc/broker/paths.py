"""Request targets, normalised once (RFC 3986 6.2.2), and the patterns that they match."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import unquote

from fastapi_oidc.broker.limits import Refused
from fastapi_oidc.errors import Code, ConfigurationError

_PATH: Final = re.compile(r"/(?:[\w\-.~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})*", re.ASCII)
_QUERY: Final = re.compile(r"(?:[\w\-.~!$&'()*+,;=:@/?\[\]{}|^]|%[0-9A-Fa-f]{2})*", re.ASCII)
_ESCAPE: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_UNRESERVED: Final = re.compile(r"[\w\-.~]", re.ASCII)
_DISGUISED: Final = re.compile(r"%(?:2F|5C|[01][0-9A-F]|7F|25(?:2E|2F|5C))|//", re.IGNORECASE)
"""What servers read in different ways: encoded slashes, control characters, a dot or slash that is
encoded twice, and empty segments.
"""
_PATTERN: Final = re.compile(r"([A-Z]+) (/\S*)")


def normalised(raw: bytes) -> str:
    """The path with its escapes and dot segments resolved; raises Refused (broker.request).

    The result is what is matched and what is sent.
    """
    path = raw.decode("latin-1")
    if not _PATH.fullmatch(path):
        raise _unreadable("the path is no path of RFC 3986")
    path = _ESCAPE.sub(_unescaped, path)
    segments = path.split("/")[1:]
    if _DISGUISED.search(path) or any(map(_hides_dots, segments)):
        raise _unreadable("servers would read the path in different ways")
    return _without_dots(segments)


def readable_query(raw: bytes) -> str:
    """The query, which is passed on as it is; raises Refused (broker.request).

    A token in the query (RFC 6750 2.3) would compete with the one that the broker sends.
    """
    query = raw.decode("latin-1")
    names = [unquote(pair.partition("=")[0]).lower() for pair in re.split("[&;]", query)]
    if not _QUERY.fullmatch(query) or "access_token" in names:
        raise _unreadable("the query has a token, or is no query of RFC 3986")
    return query


def _unescaped(escape: re.Match[str]) -> str:
    character = chr(int(escape[0][1:], 16))
    return character if _UNRESERVED.match(character) else escape[0].upper()


def _hides_dots(segment: str) -> bool:
    """Whether a segment such as `..;` is a dot segment for some servers."""
    name, parameter, _ = segment.partition(";")
    return bool(parameter) and name in (".", "..")


def _without_dots(segments: list[str]) -> str:
    """RFC 3986 5.2.4."""
    kept: list[str] = []
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)


def _unreadable(explanation: str) -> Refused:
    return Refused(Code.BROKER_REQUEST, explanation)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A method and a path: `*` is any one segment, and a final `**` one or more of them."""

    method: str
    segments: tuple[str, ...]

    @classmethod
    def parse(cls, text: object) -> Self:
        """Read "GET /events/*"; raises ConfigurationError (configuration.invalid)."""
        found = _PATTERN.fullmatch(text) if isinstance(text, str) else None
        try:
            if found is None or normalised(found[2].encode()) != found[2]:
                raise ValueError
        except (Refused, ValueError):
            explanation = f'{text!r} is no method and normalised path, such as "GET /events/*"'
            raise ConfigurationError(Code.CONFIGURATION_INVALID, explanation) from None
        return cls(found[1], tuple(found[2].split("/")[1:]))

    def matches(self, method: str, path: str) -> bool:
        """Whether the pattern is for this call; the path is a normalised one."""
        return method == self.method and self._leads_to(path.split("/")[1:])

    def may_mean(self, method: str, path: str) -> bool:
        """Like `matches`, for APIs that ignore case, a final slash, parameters and escapes."""
        loose = Pattern(self.method, tuple(map(_loosely, self.segments)))
        return loose.matches(method, "/" + "/".join(map(_loosely, path.rstrip("/").split("/")[1:])))

    def _leads_to(self, path: list[str]) -> bool:
        *first, last = self.segments
        if last == "**":
            within = len(path) > len(first) and bool(path[len(first)])
            return within and all(map(_is_like, first, path))
        return len(path) == len(self.segments) and all(map(_is_like, self.segments, path))


def _is_like(wanted: str, segment: str) -> bool:
    return wanted == segment or (wanted == "*" and bool(segment))


def _loosely(segment: str) -> str:
    return unquote(segment.partition(";")[0]).casefold()
