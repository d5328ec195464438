"""JSON as the monitor writes it: compact, UTF-8, nothing escaped that need not be."""

from __future__ import annotations

import json

from .json_reader import Json


def json_bytes(value: Json) -> bytes:
    """The value in the monitor's spelling."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
