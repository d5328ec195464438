"""Bodies as the monitor reads them: strict JSON, then each member against the description.

A fault has the first words of the monitor's text, and the name of the field in place of line and
column.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn, TypeAlias, cast

from generated_vmm.testing import facts
from generated_vmm.testing.description import Description, Json, Spec

MAX_DEPTH: Final = 127
MAX_UNSIGNED: Final = 2**64 - 1
MIN_SIGNED: Final = -(2**63)
TYPES: Final[Mapping[str, tuple[tuple[type, ...], str]]] = {
    "boolean": ((bool,), "a boolean"),
    "number": ((int, float), "a number"),
    "string": ((str,), "a string"),
    "array": ((list,), "a sequence"),
}


class Misread(Exception):
    """A body that cannot be read: the monitor's text, and the names of the enclosing members."""

    def __init__(self, words: str, *place: str) -> None:
        self.words, self.place = words, place
        super().__init__(f"{words} at `{'.'.join(place)}`" if place else words)


class Pairs(tuple[tuple[str, Any], ...]):
    """A JSON object as it came: in order, with repeated members."""

    __slots__ = ()


Raw: TypeAlias = "bool | int | float | str | list[Raw] | Pairs | None"


def read_json(text: bytes) -> Raw:
    """The value that `text` is. Raises `Misread`."""
    try:
        value: Raw = _DECODER.decode(text.decode())
        _require_encodable(value)
    except UnicodeDecodeError as error:
        inside = b'"' in text[: error.start]
        raise Misread("invalid unicode code point" if inside else "expected value") from None
    except UnicodeEncodeError:
        raise Misread("unexpected end of hex escape") from None
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            raise Misread("trailing characters") from None
        raise Misread(_words(error)) from None
    except RecursionError:
        raise Misread("recursion limit exceeded") from None
    return value


def plain(value: Raw) -> Json:
    """The value as Python's types; the last one of repeated members counts."""
    if isinstance(value, Pairs):
        return {key: plain(one) for key, one in value}
    return [plain(one) for one in value] if isinstance(value, list) else value


def json_bytes(value: Json) -> bytes:
    """The value as the monitor writes it: compact, in UTF-8."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _words(error: json.JSONDecodeError) -> str:
    rest, wants_value = error.doc[error.pos :].strip(), error.msg == "Expecting value"
    if "Unterminated" in error.msg:
        return "EOF while parsing a string"
    if not rest:
        return f"EOF while parsing {'a value' if wants_value else 'an object'}"
    return "expected ident" if wants_value and rest[0] in "ntf" else "expected value"


def _integer(digits: str) -> int | float:
    if digits == "-0" or len(digits) > len(str(MAX_UNSIGNED)):
        return _float(digits)
    value = int(digits)
    return value if MIN_SIGNED <= value <= MAX_UNSIGNED else float(value)


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise Misread("number out of range")
    return value


def _no_constant(constant: str) -> NoReturn:
    raise Misread("expected value")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=Pairs, parse_int=_integer, parse_float=_float, parse_constant=_no_constant
)


def _require_encodable(value: Raw, depth: int = 0) -> None:
    if isinstance(value, str):
        value.encode()
    if not isinstance(value, list | Pairs):
        return
    if depth == MAX_DEPTH:
        raise Misread("recursion limit exceeded")
    for one in value if isinstance(value, list) else itertools.chain.from_iterable(value):
        _require_encodable(one, depth + 1)


class BodyReader:
    """Reads bodies against one description."""

    def __init__(self, description: Description) -> None:
        self._schemas = description.schemas

    def read(self, schema: str, text: bytes) -> Json:
        """The body with every described member; an absent one has its default or is None.

        Raises `Misread`.
        """
        return self.take({"ref": schema}, read_json(text))

    def take(self, spec: Spec, value: Raw, place: str = "") -> Json:
        """A value of the described type. `place` is its `Schema.field`. Raises `Misread`."""
        while "ref" in spec:
            if "fields" in self._schemas[spec["ref"]]:
                return self._object(spec["ref"], value)
            spec = self._schemas[spec["ref"]]
        kind = spec.get("type", "")
        if "enum" in spec and place not in facts.FORMATS:
            return _choice(spec["enum"], value)
        if kind == "integer":
            return _unsigned(spec, value, place)
        if kind == "object" and "values" in spec:
            pairs = value if isinstance(value, Pairs) else _refuse(value, "a map")
            return {key: self.take(spec["values"], one, place) for key, one in pairs}
        if kind not in TYPES:
            return plain(value)
        classes, expected = TYPES[kind]
        if not isinstance(value, classes) or isinstance(value, bool) != (kind == "boolean"):
            _refuse(value, expected)
        if isinstance(value, list):
            return [self.take(spec["items"], one, place) for one in value]
        return _formatted(value, place) if isinstance(value, str) else plain(value)

    def blank(self, schema: str, **known: Json) -> dict[str, Json]:
        """An object of which only some members are known; the others have their defaults."""
        fields = self._schemas[schema]["fields"]
        return {key: known.get(key, self._default(schema, key)) for key in fields}

    def _object(self, name: str, value: Raw) -> dict[str, Json]:
        if not isinstance(value, Pairs):
            _refuse(value, f"struct {name}")
        described = self._schemas[name]["fields"]
        fields = {key: described[key] for key in described if _is_here(f"{name}.{key}")}
        given: dict[str, Json] = {}
        for key, one in value:
            if key in given:
                raise Misread(f"duplicate field `{key}`")
            if key in fields:
                given[key] = self._member(name, key, fields[key], one)
            elif name not in facts.IGNORES_UNKNOWN:
                raise Misread(f"unknown field `{key}`, expected {_one_of(list(fields))}")
        required = self._schemas[name]["required"]
        for key in (*facts.REQUIRED_ORDER.get(name, ()), *required):
            if key in required and key not in given:
                raise Misread(f"missing field `{key}`")
        return {key: given[key] if key in given else self._default(name, key) for key in fields}

    def _member(self, name: str, key: str, spec: Spec, value: Raw) -> Json:
        required = key in self._schemas[name]["required"]
        if value is None and not required and self._default(name, key) is None:
            return None
        try:
            return self.take(spec, value, f"{name}.{key}")
        except Misread as misread:
            raise Misread(misread.words, key, *misread.place) from None

    def _default(self, name: str, key: str) -> Json:
        """The value of an absent member; None if it has none."""
        place = f"{name}.{key}"
        if place in facts.DEFAULTS:
            return facts.DEFAULTS[place]
        if name.startswith("Partial") or place in facts.NULLABLE:
            return None
        kind = self._schemas[name]["fields"][key].get("type")
        return {"boolean": False, "array": cast(Json, [])}.get(kind)


def _is_here(place: str) -> bool:
    return place not in facts.NOT_ON_X86


def _choice(names: list[str], value: Raw) -> str:
    if not isinstance(value, str):
        raise Misread("expected value")
    known = [name for name in names if _is_here(f"CpuTemplate.{name}")]
    if value not in known:
        raise Misread(f"unknown variant `{value}`, expected {_one_of(known)}")
    return value


def _formatted(text: str, place: str) -> str:
    pattern, words = facts.FORMATS.get(place, (".*", ""))
    if re.fullmatch(pattern, text, re.DOTALL) is None:
        raise Misread(words.replace("{}", text))
    return text.lower() if place in facts.LOWERED else text


def _unsigned(spec: Spec, value: Raw, place: str) -> int:
    bits = facts.BITS.get(place.partition(".")[2])
    kind = f"u{bits}" if bits else "usize"
    if isinstance(value, bool) or not isinstance(value, int):
        _refuse(value, kind)
    low, high = 0, 2 ** (bits or 64) - 1
    if place not in facts.OWN_RANGE:
        low, high = max(low, spec.get("minimum", low)), min(high, spec.get("maximum", high))
    if not low <= value <= high:
        raise Misread(f"invalid value: integer `{value}`, expected {kind}")
    return value


def _refuse(value: Raw, expected: str) -> NoReturn:
    shown = "null" if value is None else "map" if isinstance(value, Pairs) else "sequence"
    if isinstance(value, bool):
        shown = f"boolean `{str(value).lower()}`"
    elif isinstance(value, int | float):
        shown = f"{'integer' if isinstance(value, int) else 'floating point'} `{value!r}`"
    elif isinstance(value, str):
        shown = f'string "{value}"'
    raise Misread(f"invalid type: {shown}, expected {expected}")


def _one_of(names: list[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    return " or ".join(quoted) if len(quoted) < 3 else "one of " + ", ".join(quoted)
