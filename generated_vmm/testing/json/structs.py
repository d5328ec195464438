"""Typed reading of request bodies, as strict as the monitor's own: a class is a table of fields.

A body is a frozen dataclass derived from `Struct`. Its annotations say what each member may hold,
the order of its fields is the order the monitor lists them in, a field without default is required,
and `X | None` is a member that may be absent or null. The words of a refusal are the monitor's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    ClassVar,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from generated_vmm.testing.json.reader import Misfit, Reader
from generated_vmm.testing.json.values import (
    any_value,
    colon,
    items,
    keys,
    number_text,
    refuse_type,
)

Read = Callable[[Reader], object]


@dataclass(frozen=True)
class Width:
    """An unsigned integer of so many bits."""

    name: str
    bits: int


@dataclass(frozen=True)
class Named:
    """A string that the monitor calls by another name, such as `path string`."""

    expected: str


@dataclass(frozen=True)
class Parsed:
    """A string the monitor turns into something else; `parse` raises `Misfit` when it cannot.

    `early` places the refusal right behind the string, as the monitor does for types of Rust's own
    library; otherwise it is placed where the object around it ends or goes on.
    """

    parse: Callable[[str], str]
    expected: str = "a string"
    early: bool = False


U8 = Annotated[int, Width("u8", 8)]
U16 = Annotated[int, Width("u16", 16)]
U32 = Annotated[int, Width("u32", 32)]
U64 = Annotated[int, Width("u64", 64)]
Usize = Annotated[int, Width("usize", 64)]
HostPath = Annotated[str, Named("path string")]


@dataclass(frozen=True, kw_only=True)
class Struct:
    """A JSON object with known members. `name` is what the monitor calls it in refusals."""

    STRUCT_NAME: ClassVar[str]
    IGNORES_UNKNOWN: ClassVar[bool]

    def __init_subclass__(cls, *, name: str, ignores_unknown: bool = False) -> None:
        super().__init_subclass__()
        cls.STRUCT_NAME = name
        cls.IGNORES_UNKNOWN = ignores_unknown


Body = TypeVar("Body", bound=Struct)


def read_body(shape: type[Body], text: bytes) -> Body:
    """The whole of `text` as one `shape`. Raises `Misread`."""
    hint: object = shape
    reader = Reader(text)
    body = _reading(hint)(reader)
    reader.end()
    assert isinstance(body, shape)
    return body


def one_of(names: tuple[str, ...]) -> str:
    """The names as a refusal lists them."""
    quoted = [f"`{name}`" for name in names]
    return " or ".join(quoted) if len(quoted) < 3 else "one of " + ", ".join(quoted)


@cache
def _reading(hint: object) -> Read:
    """How a value of the annotated type is read."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _annotated(arguments[1])
    if origin in (Union, UnionType):
        return _optional(_reading(next(part for part in arguments if part is not NoneType)))
    if origin is Literal:
        return _choice(arguments)
    if origin is tuple:
        return _sequence(_reading(arguments[0]))
    if isinstance(hint, type) and issubclass(hint, Struct):
        return _struct_of(hint)
    if hint is bool:
        return _flag
    assert hint is str, hint
    return _text("a string")


def _annotated(mark: object) -> Read:
    if isinstance(mark, Width):
        return _unsigned(mark)
    if isinstance(mark, Parsed):
        return _parsed(mark)
    assert isinstance(mark, Named)
    return _text(mark.expected)


def _text(expected: str) -> Callable[[Reader], str]:
    def read(reader: Reader) -> str:
        if reader.value_byte() != ord('"'):
            refuse_type(reader, expected)
        return reader.string()

    return read


def _parsed(mark: Parsed) -> Read:
    text = _text(mark.expected)

    def read(reader: Reader) -> str:
        value = text(reader)
        if not mark.early:
            return mark.parse(value)
        with reader.placing():
            return mark.parse(value)

    return read


def _flag(reader: Reader) -> bool:
    if reader.value_byte() not in b"tf":
        refuse_type(reader, "a boolean")
    return bool(reader.word())


def _unsigned(width: Width) -> Read:
    def read(reader: Reader) -> int:
        if reader.value_byte() not in b"-0123456789":
            refuse_type(reader, width.name)
        number = reader.number()
        if isinstance(number, float):
            reader.fail(f"invalid type: {number_text(number)}, expected {width.name}")
        if not 0 <= number < 2**width.bits:
            reader.fail(f"invalid value: {number_text(number)}, expected {width.name}")
        return number

    return read


def _choice(names: tuple[str, ...]) -> Read:
    def read(reader: Reader) -> str:
        if reader.value_byte() != ord('"'):
            reader.fail_ahead("expected value")
        name = reader.string()
        if name not in names:
            reader.fail(f"unknown variant `{name}`, expected {one_of(names)}")
        return name

    return read


def _optional(inner: Read) -> Read:
    def read(reader: Reader) -> object:
        return reader.word() if reader.value_byte() == ord("n") else inner(reader)

    return read


def _sequence(item: Read) -> Read:
    def read(reader: Reader) -> object:
        if reader.value_byte() != ord("["):
            refuse_type(reader, "a sequence")
        return tuple(items(reader, item))

    return read


def _struct_of(shape: type[Struct]) -> Read:
    hints = get_type_hints(shape, include_extras=True)
    members = {field.name: _reading(hints[field.name]) for field in fields(shape)}
    required = [field.name for field in fields(shape) if field.default is MISSING]

    def read(reader: Reader) -> Struct:
        if reader.value_byte() != ord("{"):
            refuse_type(reader, f"struct {shape.STRUCT_NAME}")
        with reader.deeper():
            try:
                values = _members(reader, members, ignores_unknown=shape.IGNORES_UNKNOWN)
                _require(required, values)
            except Misfit as misfit:
                if reader.next_byte() == ord("}"):
                    reader.at += 1
                reader.fail(str(misfit))
            reader.at += 1
        return shape(**values)

    return read


def _members(
    reader: Reader, members: Mapping[str, Read], *, ignores_unknown: bool
) -> dict[str, object]:
    values: dict[str, object] = {}
    for key in keys(reader):
        if key in values:
            raise Misfit(f"duplicate field `{key}`")
        if key in members:
            colon(reader)
            values[key] = members[key](reader)
        elif ignores_unknown:
            colon(reader)
            any_value(reader)
        else:
            raise Misfit(f"unknown field `{key}`, expected {one_of(tuple(members))}")
    return values


def _require(required: list[str], values: Mapping[str, object]) -> None:
    for name in required:
        if name not in values:
            raise Misfit(f"missing field `{name}`")
