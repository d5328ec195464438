"""Makes texts and values from outside safe to log and to show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MAX_TEXT: Final = 2000
"""Maximum characters of an OP's description that are shown; its end may have the advice."""
MAX_VALUE: Final = 200
"""Maximum characters of a single value that are shown."""
MIN_SECRET_LENGTH: Final = 6
"""The minimum length of a secret to remove: shorter ones occur in texts by chance."""

MAX_MEMBERS: Final = 5
"""Maximum number of shown members of a list."""
LARGEST_NUMBER: Final = 10**18
"""Numbers of this size or larger are not shown."""


def cleaned(text: str, length: int = MAX_TEXT) -> str:
    """At most `length` characters of printable ASCII; others are escaped as Python does."""
    # Cut before escaping, which makes a text up to ten times as long.
    return text[:length].encode("unicode_escape").decode("ascii")[:length]


def without(text: str, secrets: Iterable[str]) -> str:
    """`text` with `[...]` in place of each of `secrets`: an OP may repeat what it received."""
    for secret in secrets:
        if len(secret) >= MIN_SECRET_LENGTH:
            text = text.replace(secret, "[...]")
    return text


def shown(value: object) -> str:
    """A value for a log line: a text is cut and quoted; None is `missing`."""
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
