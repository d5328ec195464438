"""The texts of an OP's refusal, made safe to log and to show."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

MAX_LENGTH = 200
MIN_SECRET_LENGTH: Final = 6
"""Shorter values are in any text by chance."""

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
