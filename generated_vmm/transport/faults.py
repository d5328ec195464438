"""The text of a refusal, whatever the shape of its body."""

from __future__ import annotations

import json
import re

# The monitor's HTTP layer writes JSON by hand: line breaks and quotes inside stay as they are.
LAYER_ERROR = re.compile(r'\s*\{\s*"error"\s*:\s*"(?P<text>.*)"\s*\}\s*', re.DOTALL)


def fault_message_in(content: bytes) -> str:
    """The `fault_message` of a JSON fault, the `error` of the HTTP layer, else the body as text."""
    text = content.decode(errors="replace")
    fault = _json_object(text)
    for name in ("fault_message", "error"):
        if isinstance(message := fault.get(name), str):
            return message
    written_by_hand = LAYER_ERROR.fullmatch(text)
    return written_by_hand["text"] if written_by_hand else text.strip()


def _json_object(text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
