"""Bodies checked against the description, member by member in the order they came.

A fault has the monitor's first words and the name of the field; where in the text it was found is
told by that name, not by line and column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn

from generated_vmm.testing.bodies.facts import (
    BITS,
    DEFAULTS,
    FORMATS,
    IGNORES_UNKNOWN,
    NOT_ON_X86,
    NULLABLE,
    OWN_RANGE,
    PATH_STRINGS,
    REQUIRED_ORDER,
)
from generated_vmm.testing.bodies.json_text import Members, Misread, Raw, plain, read_json
from generated_vmm.testing.description import SCHEMAS, Json, Spec


def read_body(schema: str, text: bytes) -> Json:
    """The body with every described member; what is absent has its default or is None.

    Raises `Misread`.
    """
    return _read({"ref": schema}, read_json(text), "")


def fill(schema: str, value: Json) -> Json:
    """A value of our own in the same form. Raises `Misread`."""
    return _read({"ref": schema}, _raw(value), "")


def _raw(value: Json) -> Raw:
    if isinstance(value, dict):
        return Members([(key, _raw(one)) for key, one in value.items()])
    return [_raw(one) for one in value] if isinstance(value, list) else value


def _read(spec: Spec, value: Raw, place: str) -> Json:
    """`place` is `Schema.field`, the key of what the description does not say."""
    name = spec.get("ref")
    if name is not None and "fields" in SCHEMAS[name]:
        return _object(name, value)
    if name is not None:
        return _read(SCHEMAS[name], value, place)
    reader = FORMATS.get(place)
    if reader is not None and spec["type"] != "array":
        return reader(_text(value))
    if "enum" in spec:
        return _choice(spec["enum"], value)
    return READERS.get(spec.get("type", ""), _anything)(spec, value, place)


def _object(name: str, value: Raw) -> dict[str, Json]:
    if not isinstance(value, Members):
        _refuse(value, f"struct {name}")
    fields = _fields(name)
    given: dict[str, Json] = {}
    for key, one in value.pairs:
        if key in given:
            raise Misread(f"duplicate field `{key}`")
        if key in fields:
            given[key] = _member(name, key, fields[key], one)
        elif name not in IGNORES_UNKNOWN:
            raise Misread(f"unknown field `{key}`, expected {_one_of(list(fields))}")
    for key in REQUIRED_ORDER.get(name, SCHEMAS[name]["required"]):
        if key not in given:
            raise Misread(f"missing field `{key}`")
    absent = {key: default_of(name, key) for key in fields if key not in given}
    return {key: given[key] if key in given else absent[key] for key in fields}


def _fields(name: str) -> Mapping[str, Spec]:
    fields: Mapping[str, Spec] = SCHEMAS[name]["fields"]
    return {key: spec for key, spec in fields.items() if f"{name}.{key}" not in NOT_ON_X86}


def _member(name: str, key: str, spec: Spec, value: Raw) -> Json:
    optional = key not in SCHEMAS[name]["required"] and default_of(name, key) is None
    if value is None and optional:
        return None
    try:
        return _read(spec, value, f"{name}.{key}")
    except Misread as misread:
        raise Misread(misread.words, key, *misread.place) from None


def default_of(name: str, key: str) -> Json:
    """What an absent member counts as; None when that is nothing."""
    place = f"{name}.{key}"
    if place in DEFAULTS:
        return DEFAULTS[place]
    if name.startswith("Partial") or place in NULLABLE or name not in SCHEMAS:
        return None
    spec = SCHEMAS[name]["fields"][key]
    plain_default: Mapping[str, Json] = {"boolean": False, "array": []}
    return plain_default.get(spec.get("type", ""))


def _choice(names: list[str], value: Raw) -> str:
    if not isinstance(value, str):
        raise Misread("expected value")
    known = [name for name in names if f"CpuTemplate.{name}" not in NOT_ON_X86]
    if value not in known:
        raise Misread(f"unknown variant `{value}`, expected {_one_of(known)}")
    return value


def _text(value: Raw, expected: str = "a string") -> str:
    return value if isinstance(value, str) else _refuse(value, expected)


def _string(spec: Spec, value: Raw, place: str) -> Json:
    is_path = place.partition(".")[2] in PATH_STRINGS
    return _text(value, "path string" if is_path else "a string")


def _flag(spec: Spec, value: Raw, place: str) -> Json:
    return value if isinstance(value, bool) else _refuse(value, "a boolean")


def _number(spec: Spec, value: Raw, place: str) -> Json:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return plain(value) if number else _refuse(value, "a number")


def _integer(spec: Spec, value: Raw, place: str) -> Json:
    bits = BITS.get(place.partition(".")[2])
    kind = f"u{bits}" if bits else "usize"
    if isinstance(value, bool) or not isinstance(value, int):
        _refuse(value, kind)
    low, high = 0, 2 ** (bits or 64) - 1
    if place not in OWN_RANGE:
        low, high = max(low, spec.get("minimum", low)), min(high, spec.get("maximum", high))
    if not low <= value <= high:
        raise Misread(f"invalid value: integer `{value}`, expected {kind}")
    return value


def _array(spec: Spec, value: Raw, place: str) -> Json:
    if not isinstance(value, list):
        _refuse(value, "a sequence")
    return [_read(spec["items"], one, place) for one in value]


def _map(spec: Spec, value: Raw, place: str) -> Json:
    if "values" not in spec:
        return plain(value)
    if not isinstance(value, Members):
        _refuse(value, "a map")
    return {key: _read(spec["values"], one, place) for key, one in value.pairs}


def _anything(spec: Spec, value: Raw, place: str) -> Json:
    return plain(value)


READERS: Mapping[str, Callable[[Spec, Raw, str], Json]] = {
    "string": _string,
    "boolean": _flag,
    "number": _number,
    "integer": _integer,
    "array": _array,
    "object": _map,
}


def _refuse(value: Raw, expected: str) -> NoReturn:
    raise Misread(f"invalid type: {_kind(value)}, expected {expected}")


def _kind(value: Raw) -> str:
    if isinstance(value, bool):
        return f"boolean `{str(value).lower()}`"
    if isinstance(value, str):
        return f'string "{value}"'
    if isinstance(value, int | float):
        return f"{'integer' if isinstance(value, int) else 'floating point'} `{value!r}`"
    if isinstance(value, list):
        return "sequence"
    return "null" if value is None else "map"


def _one_of(names: list[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    return " or ".join(quoted) if len(quoted) < 3 else "one of " + ", ".join(quoted)
