"""The texts of an OP's refusal, made safe to log and to show."""

from __future__ import annotations

import re

MAX_LENGTH = 200

_NOT_ALLOWED = re.compile(r"[^ !#-\[\]-~]")


def cleaned(text: str) -> str:
    """At most 200 characters of `text`, all of them allowed in an error (RFC 6749 4.1.2.1, 5.2)."""
    return _NOT_ALLOWED.sub("?", text[:MAX_LENGTH])
