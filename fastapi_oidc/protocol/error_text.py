"""Words and values of somebody else, made safe to log and to show."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

MAX_LENGTH = 200
MIN_SECRET_LENGTH: Final = 6
"""Shorter values are in any text by chance."""

MAX_MEMBERS: Final = 5
"""How many members of a list are shown."""
LARGEST_NUMBER: Final = 10**18
"""Numbers from here on are not shown."""

_NOT_ALLOWED = re.compile(r"[^ !#-\[\]-~]")


def cleaned(text: str) -> str:
    """At most 200 characters of `text`, all of them allowed in an error (RFC 6749 4.1.2.1, 5.2)."""
    return _NOT_ALLOWED.sub("?", text[:MAX_LENGTH])


def without(text: str, secrets: Iterable[str]) -> str:
    """`text` with `[...]` in place of each of `secrets`, as an OP may repeat what it was sent."""
    for secret in secrets:
        if len(secret) >= MIN_SECRET_LENGTH:
            text = text.replace(secret, "[...]")
    return text


def shown(value: object) -> str:
    """A value of a message for a log line: a text in quotes, cut, and `missing` for nothing."""
    match value:
        case None:
            return "missing"
        case str():
            return f"'{cleaned(value)}'"
        case bool() | int() | float():
            return cleaned(str(value)) if abs(value) < LARGEST_NUMBER else "a large number"
        case list() | tuple():
            return "[" + ", ".join(shown(member) for member in value[:MAX_MEMBERS]) + "]"
    return "a JSON object"
