"""Objects, arrays and free values, byte by byte; and the words for a value of the wrong type."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NoReturn, TypeVar

from generated_vmm.testing.json.reader import WORDS, Json, Reader

Value = TypeVar("Value")


def read_json(text: bytes) -> Json:
    """The whole of `text` as any JSON value. Raises `Misread`."""
    reader = Reader(text)
    value = any_value(reader)
    reader.end()
    return value


def any_value(reader: Reader) -> Json:
    """Whatever value comes next."""
    byte = reader.value_byte()
    if byte == ord("{"):
        return dict(_any_members(reader))
    if byte == ord("["):
        return list(items(reader, any_value))
    if byte == ord('"'):
        return reader.string()
    if byte in WORDS:
        return reader.word()
    if byte in b"-0123456789":
        return reader.number()
    reader.fail_ahead("expected value")


def _any_members(reader: Reader) -> Iterator[tuple[str, Json]]:
    with reader.deeper():
        for key in keys(reader):
            colon(reader)
            yield key, any_value(reader)
        reader.at += 1


def keys(reader: Reader) -> Iterator[str]:
    """The keys of the object just entered; stops in front of its closing brace."""
    first = True
    while (byte := reader.next_byte()) != ord("}"):
        if byte is None:
            reader.fail_ahead("EOF while parsing an object")
        if not first:
            _comma(reader, byte, closing=ord("}"), wanted="expected `,` or `}`")
        if reader.next_byte() != ord('"'):
            reader.fail_ahead("key must be a string")
        first = False
        yield reader.string()


def items(reader: Reader, item: Callable[[Reader], Value]) -> Iterator[Value]:
    """The items of the array that comes next; leaves its closing bracket behind."""
    with reader.deeper():
        first = True
        while (byte := reader.next_byte()) != ord("]"):
            if byte is None:
                reader.fail_ahead("EOF while parsing a list")
            if not first:
                _comma(reader, byte, closing=ord("]"), wanted="expected `,` or `]`")
            first = False
            yield item(reader)
        reader.at += 1


def _comma(reader: Reader, byte: int, *, closing: int, wanted: str) -> None:
    if byte != ord(","):
        reader.fail_ahead(wanted)
    reader.at += 1
    following = reader.next_byte()
    if following is None:
        reader.fail_ahead("EOF while parsing a value")
    if following == closing:
        reader.fail_ahead("trailing comma")


def colon(reader: Reader) -> None:
    """Read the colon between a key and its value."""
    byte = reader.next_byte()
    if byte is None:
        reader.fail_ahead("EOF while parsing an object")
    if byte != ord(":"):
        reader.fail_ahead("expected `:`")
    reader.at += 1


def refuse_type(reader: Reader, expected: str) -> NoReturn:
    """Refuse the value that comes next because it is not what was expected."""
    byte = reader.value_byte()
    kinds = {ord("["): "sequence", ord("{"): "map"}
    found = kinds[byte] if byte in kinds else _scalar_text(any_value(reader))
    reader.fail(f"invalid type: {found}, expected {expected}")


def _scalar_text(value: Json) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"boolean `{str(value).lower()}`"
    if isinstance(value, int | float):
        return number_text(value)
    quoted = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'string "{quoted}"'


def number_text(number: int | float) -> str:
    """A number as a refusal names it."""
    if isinstance(number, int):
        return f"integer `{number}`"
    return f"floating point `{number!r}`"
