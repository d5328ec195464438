"""JSON as the monitor takes it: stricter than Python's reader, and no text ends the process."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Final, NoReturn, TypeAlias

from generated_vmm.testing.description import Json

MAX_DEPTH: Final = 127
MAX_UNSIGNED: Final = 2**64 - 1
MIN_SIGNED: Final = -(2**63)
# What Python says of a text, and what the monitor does: inside the text, and at its end.
WORDS: Final = {
    "Expecting value": ("expected value", "EOF while parsing a value"),
    "Expecting property name": ("key must be a string", "EOF while parsing an object"),
    "Expecting ':'": ("expected `:`", "EOF while parsing an object"),
    "Expecting ','": ("expected `,` or `}`", "EOF while parsing an object"),
    "Illegal trailing comma": ("trailing comma", "trailing comma"),
    "Extra data": ("trailing characters", "trailing characters"),
    "Unterminated string": ("EOF while parsing a string", "EOF while parsing a string"),
    "Invalid control": ("control character (\\u0000-\\u001F) found while parsing a string", ""),
}


class Misread(Exception):
    """A body that cannot be read: the monitor's words, and the names of the members around it."""

    def __init__(self, words: str, *place: str) -> None:
        self.words, self.place = words, place
        super().__init__(f"{words} at `{'.'.join(place)}`" if place else words)


@dataclass(frozen=True, slots=True)
class Members:
    """A JSON object as it came: in order, with what is there twice."""

    pairs: list[tuple[str, Raw]]


Raw: TypeAlias = "bool | int | float | str | list[Raw] | Members | None"


def read_json(text: bytes) -> Raw:
    """The whole of `text` as one value. Raises `Misread`."""
    try:
        value: Raw = _DECODER.decode(text.decode())
        _require_encodable(value)
    except UnicodeDecodeError as error:
        inside = b'"' in text[: error.start]
        raise Misread("invalid unicode code point" if inside else "expected value") from None
    except UnicodeEncodeError:
        raise Misread("unexpected end of hex escape") from None
    except json.JSONDecodeError as error:
        raise Misread(_words(error)) from None
    except RecursionError:
        raise Misread("recursion limit exceeded") from None
    return value


def plain(value: Raw) -> Json:
    """The value as Python has it; of members that are there twice the last one counts."""
    if isinstance(value, Members):
        return {key: plain(one) for key, one in value.pairs}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value


def json_bytes(value: Json) -> bytes:
    """The value as the monitor writes it: compact, in UTF-8."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _integer(digits: str) -> int | float:
    if digits == "-0" or len(digits) > len(str(MAX_UNSIGNED)):
        return _number(digits)
    value = int(digits)
    return value if MIN_SIGNED <= value <= MAX_UNSIGNED else float(value)


def _number(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise Misread("number out of range")
    return value


def _refuse(constant: str) -> NoReturn:
    raise Misread("expected value")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=Members, parse_int=_integer, parse_float=_number, parse_constant=_refuse
)


def _require_encodable(value: Raw, depth: int = 0) -> None:
    if isinstance(value, str):
        value.encode()
    if not isinstance(value, list | Members):
        return
    if depth == MAX_DEPTH:
        raise Misread("recursion limit exceeded")
    pairs = value.pairs if isinstance(value, Members) else [("", one) for one in value]
    for key, one in pairs:
        key.encode()
        _require_encodable(one, depth + 1)


def _words(error: json.JSONDecodeError) -> str:
    rest = error.doc[error.pos :].lstrip()
    if rest.startswith(("n", "t", "f")) and error.msg == "Expecting value":
        return "expected ident"
    if error.doc[: error.pos].rstrip().endswith(",") and rest.startswith(("}", "]")):
        return "trailing comma"
    for start, words in WORDS.items():
        if error.msg.startswith(start):
            return words[not rest]
    return "invalid escape"
