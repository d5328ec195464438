"""JSON as the monitor writes it: compact, UTF-8, nothing escaped that need not be."""

from __future__ import annotations

import json

from generated_vmm.testing.json.reader import Json


def json_bytes(value: Json) -> bytes:
    """The value in the monitor's spelling."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def sorted_json(value: Json) -> Json:
    """The value with the keys of all its objects in order, as the monitor keeps free documents."""
    if isinstance(value, dict):
        return {key: sorted_json(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [sorted_json(item) for item in value]
    return value
