"""The one reader of JSON that somebody else wrote: an OP's answer, a JOSE header, a claims set."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import NoReturn, TypeAlias

from typing_extensions import TypeAliasType

JSON = TypeAliasType("JSON", "bool | int | float | str | list[JSON] | dict[str, JSON] | None")
"""Any JSON value. Numbers are finite, and no text holds a lone surrogate."""

Claims: TypeAlias = Mapping[str, JSON]
"""The members of one JSON object."""

MAX_BYTES = 1_000_000
MAX_DEPTH = 32

_WHITESPACE = " \t\n\r"


class MalformedJSON(ValueError):
    """The text is not JSON as this library accepts it; says why without quoting the text."""


def parse_json(text: bytes, *, max_bytes: int = MAX_BYTES) -> JSON:
    """The value `text` stands for (RFC 8259, I-JSON RFC 7493).

    Raises MalformedJSON for anything else than UTF-8, for a repeated member, a number that is not
    finite, a lone surrogate, more than `max_bytes` bytes or more than 32 levels of nesting.
    """
    if len(text) > max_bytes:
        raise MalformedJSON(f"over {max_bytes} bytes")
    try:
        decoded = text.decode("utf-8").strip(_WHITESPACE)
        value: JSON
        value, end = _DECODER.raw_decode(decoded)
    except MalformedJSON:
        raise
    except (ValueError, RecursionError):
        # The original error carries the whole text, which may hold tokens.
        raise MalformedJSON("not JSON in UTF-8") from None
    if end != len(decoded):
        raise MalformedJSON("more than one value")
    _require_shallow(text, value)
    _require_no_surrogate(text, value)
    return value


def parse_json_object(text: bytes, *, max_bytes: int = MAX_BYTES) -> Claims:
    """The members of the JSON object `text` stands for; raises MalformedJSON for anything else."""
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
    # Most texts have too few brackets to be deep, which is quicker to see than to walk them.
    if text.count(b"[") + text.count(b"{") > MAX_DEPTH and not _is_shallow(value, MAX_DEPTH):
        raise MalformedJSON("nested too deep")


def _is_shallow(value: JSON, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return True
    members = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(_is_shallow(member, levels - 1) for member in members)


def _require_no_surrogate(text: bytes, value: JSON) -> None:
    # UTF-8 has no surrogates: only an escape can make a lone one.
    if rb"\u" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise MalformedJSON("a text has a lone surrogate") from None
