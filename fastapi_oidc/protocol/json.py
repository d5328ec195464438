"""The strict reader for JSON from outside: an OP's responses, JOSE headers, claims sets."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import NoReturn, TypeAlias

from typing_extensions import TypeAliasType

JSON = TypeAliasType("JSON", "bool | int | float | str | list[JSON] | dict[str, JSON] | None")
"""Any JSON value. Numbers are finite, and texts have no lone surrogates."""

Claims: TypeAlias = Mapping[str, JSON]
"""The members of one JSON object."""

MAX_BYTES = 1_000_000
MAX_DEPTH = 32

_WHITESPACE = " \t\n\r"


class MalformedJSON(ValueError):
    """The text is not JSON that this library accepts. The message does not quote the text."""


def parse_json(text: bytes, *, max_bytes: int = MAX_BYTES) -> JSON:
    """The value of the JSON `text` (RFC 8259, I-JSON RFC 7493).

    Raises MalformedJSON for anything else than UTF-8, for a repeated member, a number that is not
    finite, a lone surrogate, more than `max_bytes` bytes or more than 32 levels of nesting.
    """
    if len(text) > max_bytes:
        raise MalformedJSON(f"more than {max_bytes} bytes")
    try:
        decoded = text.decode("utf-8").strip(_WHITESPACE)
        value: JSON
        value, end = _DECODER.raw_decode(decoded)
    except MalformedJSON:
        raise
    except (ValueError, RecursionError):
        # The original error has the whole text, which may contain tokens.
        raise MalformedJSON("not JSON in UTF-8") from None
    if end != len(decoded):
        raise MalformedJSON("more than one value")
    _require_shallow(text, value)
    _require_no_surrogate(text, value)
    return value


def parse_json_object(text: bytes, *, max_bytes: int = MAX_BYTES) -> Claims:
    """The members of the JSON object `text`; raises MalformedJSON for anything else."""
    value = parse_json(text, max_bytes=max_bytes)
    if not isinstance(value, dict):
        raise MalformedJSON("not a JSON object")
    return value


def _unique_members(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise MalformedJSON("a member is repeated")
    return members


def _finite(numeral: str) -> float:
    number = float(numeral)
    if math.isinf(number):
        raise MalformedJSON("a number is too large")
    return number


def _refuse_constant(_name: str) -> NoReturn:
    raise MalformedJSON("a number is not finite")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique_members, parse_float=_finite, parse_constant=_refuse_constant
)


def _require_shallow(text: bytes, value: JSON) -> None:
    # Counting brackets is faster, and enough for most texts.
    if text.count(b"[") + text.count(b"{") > MAX_DEPTH and not _is_shallow(value, MAX_DEPTH):
        raise MalformedJSON("nested too deep")


def _is_shallow(value: JSON, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return True
    members = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(_is_shallow(member, levels - 1) for member in members)


def _require_no_surrogate(text: bytes, value: JSON) -> None:
    # UTF-8 has no surrogates: only an escape sequence can make a lone one.
    if rb"\u" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise MalformedJSON("a text has a lone surrogate") from None
