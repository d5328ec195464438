"""JSON numbers, with the refusals of the monitor's reader."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from generated_vmm.testing.json.reader import Reader

DIGITS: Final = b"0123456789"


def read_number(reader: Reader) -> int | float:
    """Read a number that starts at `-` or a digit; one that needs more than 64 bits is a float."""
    start = reader.at
    negative = reader.peek() == ord("-")
    reader.at += negative
    _whole(reader)
    exact = not (_fraction(reader) | _exponent(reader))
    text = reader.text[start : reader.at]
    if exact and _fits(int(text), negative=negative):
        return int(text)
    number = float(text)
    if math.isinf(number):
        reader.fail("number out of range")
    return number


def _fits(number: int, *, negative: bool) -> bool:
    # "-0" is the one whole number that only a float can hold.
    return -(2**63) <= number < 0 if negative else number < 2**64


def _whole(reader: Reader) -> None:
    first = reader.peek()
    if first is None or first not in DIGITS:
        reader.at += first is not None
        reader.fail("EOF while parsing a value" if first is None else "invalid number")
    reader.at += 1
    if first != ord("0"):
        _digits(reader)
    elif _at_digit(reader):
        reader.fail_ahead("invalid number")


def _fraction(reader: Reader) -> bool:
    if reader.peek() != ord("."):
        return False
    reader.at += 1
    if not _at_digit(reader):
        ended = reader.peek() is None
        reader.fail_ahead("EOF while parsing a value" if ended else "invalid number")
    _digits(reader)
    return True


def _exponent(reader: Reader) -> bool:
    if reader.peek() not in (ord("e"), ord("E")):
        return False
    reader.at += 1
    if reader.peek() in (ord("+"), ord("-")):
        reader.at += 1
    if not _at_digit(reader):
        ended = reader.peek() is None
        reader.at += not ended
        reader.fail("EOF while parsing a value" if ended else "invalid number")
    _digits(reader)
    return True


def _digits(reader: Reader) -> None:
    while _at_digit(reader):
        reader.at += 1


def _at_digit(reader: Reader) -> bool:
    byte = reader.peek()
    return byte is not None and byte in DIGITS
