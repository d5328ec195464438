"""Foreign texts and values, made safe to log and to show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MAX_TEXT: Final = 2000
"""Characters of an OP's description that are shown: its last sentence may say what to set."""
MAX_VALUE: Final = 200
"""Characters of a single value that are shown."""
MIN_SECRET_LENGTH: Final = 6
"""Shorter values are in any text by chance."""

MAX_MEMBERS: Final = 5
"""How many members of a list are shown."""
LARGEST_NUMBER: Final = 10**18
"""Numbers from here on are not shown."""


def cleaned(text: str, length: int = MAX_TEXT) -> str:
    """At most `length` characters of printable ASCII; others are escaped as Python does."""
    # Cut first: escaping makes a text up to ten times as long.
    return text[:length].encode("unicode_escape").decode("ascii")[:length]


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
            return f"'{cleaned(value, MAX_VALUE)}'"
        case bool() | int() | float():
            return str(value) if abs(value) < LARGEST_NUMBER else "a large number"
        case list() | tuple():
            return "[" + ", ".join(shown(member) for member in value[:MAX_MEMBERS]) + "]"
    return "a JSON object"
