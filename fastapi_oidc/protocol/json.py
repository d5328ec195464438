"""The strict reader for JSON from outside: an OP's responses, JOSE headers, claims sets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from pydantic_core import from_json
from typing_extensions import TypeAliasType

if TYPE_CHECKING:  # Pyright loses the recursion of a TypeAliasType, depending on the order of files
    JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
else:
    JSON = TypeAliasType("JSON", "bool | int | float | str | list[JSON] | dict[str, JSON] | None")
"""Any JSON value. Texts have no lone surrogates."""

Claims: TypeAlias = Mapping[str, JSON]
"""The members of one JSON object."""

MAX_BYTES = 1_000_000


class MalformedJSON(ValueError):
    """The text is not JSON that this library accepts. The message does not quote the text."""


def parse_json(text: bytes, *, max_bytes: int = MAX_BYTES) -> JSON:
    """The value of the JSON `text` (RFC 8259). Of a repeated member, the last one (RFC 7515 4).

    Raises MalformedJSON for anything else than UTF-8, for NaN, a number that no float can hold, a
    lone surrogate, more than `max_bytes` bytes or about 200 levels of nesting.
    """
    if len(text) > max_bytes:
        raise MalformedJSON(f"more than {max_bytes} bytes")
    try:
        value: JSON = from_json(text, allow_inf_nan=False)
        json.dumps(value, allow_nan=False)  # refuses a number that became infinite, such as 1e400
    except ValueError:
        raise MalformedJSON("not JSON in UTF-8, or a number is too large") from None
    return value


def parse_json_object(text: bytes, *, max_bytes: int = MAX_BYTES) -> Claims:
    """The members of the JSON object `text`; raises MalformedJSON for anything else."""
    value = parse_json(text, max_bytes=max_bytes)
    if not isinstance(value, dict):
        raise MalformedJSON("not a JSON object")
    return value
