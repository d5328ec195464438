"""Return paths of logins and logouts: only paths of this application."""

from __future__ import annotations

import re
from typing import TypeGuard
from urllib.parse import unquote

MAX_RETURN_PATH_LENGTH = 1000

_PRINTABLE_WITHOUT_BACKSLASH = re.compile(r"/[!-\[\]-~]*")
_ENCODED_CONTROL = re.compile(r"%(?:[01][0-9a-f]|7f)", re.IGNORECASE)


def same_origin_path(value: object, *, default: str, origin: str | None = None) -> str:
    """`value` if it is a path of this origin, otherwise `default` (RFC 9700 4.11.1).

    It may begin with `origin`, as URLs of the application do that it has made itself.
    """
    path = value.removeprefix(origin) if isinstance(value, str) and origin else value
    return path if is_same_origin_path(path) else default


def is_same_origin_path(value: object) -> TypeGuard[str]:
    """Whether every browser and server reads `value` as a path of its own origin.

    Percent-encoded ASCII that begins with one slash, at most 1000 characters, without
    backslashes, control characters (encoded ones neither), empty or dot segments.
    """
    if not isinstance(value, str) or len(value) > MAX_RETURN_PATH_LENGTH:
        return False
    if not _PRINTABLE_WITHOUT_BACKSLASH.fullmatch(value) or _ENCODED_CONTROL.search(value):
        return False
    path = re.split("[?#]", value)[0]
    *inner, last = (unquote(segment) for segment in path.split("/")[1:])
    return "" not in inner and not any(_misleads(segment) for segment in (*inner, last))


def _misleads(segment: str) -> bool:
    return segment in (".", "..") or "/" in segment or "\\" in segment
