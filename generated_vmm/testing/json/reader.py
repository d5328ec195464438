"""JSON read as the monitor reads it: byte after byte, each refusal with its line and column.

The monitor (Rust, serde_json) stops at the first byte it cannot use and says where. Reading in the
same order gives the same words and numbers; `json.loads` would find other faults first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn, TypeAlias

from generated_vmm.testing.json.numbers import read_number

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

MAX_DEPTH: Final = 127
SPACE: Final = b" \n\t\r"
ESCAPES: Final = {
    0x22: '"', 0x5C: "\\", 0x2F: "/", 0x62: "\b", 0x66: "\f", 0x6E: "\n", 0x72: "\r", 0x74: "\t",
}  # fmt: skip
WORDS: Final[dict[int, tuple[bytes, bool | None]]] = {
    ord("n"): (b"ull", None),
    ord("t"): (b"rue", True),
    ord("f"): (b"alse", False),
}


class Misread(Exception):
    """A body that cannot be read; the text ends with the place."""


class Misfit(Exception):
    """JSON of the wrong shape, found before the place is known; `Reader.placing` adds it."""


class Reader:
    """A position in a JSON text, and what may be read from there."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.at = 0
        self._depth = 0

    def fail(self, what: str) -> NoReturn:
        """Refuse the byte that was read last."""
        raise Misread(self._placed(what, self.at))

    def fail_ahead(self, what: str) -> NoReturn:
        """Refuse the byte that comes next."""
        raise Misread(self._placed(what, min(len(self.text), self.at + 1)))

    def _placed(self, what: str, end: int) -> str:
        line_start = self.text.rfind(b"\n", 0, end) + 1
        line = self.text.count(b"\n", 0, end) + 1
        return f"{what} at line {line} column {end - line_start}"

    @contextmanager
    def placing(self) -> Iterator[None]:
        """Give a `Misfit` raised inside the place that has been reached."""
        try:
            yield
        except Misfit as misfit:
            self.fail(str(misfit))

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """Go one level into an object or array."""
        if self._depth == MAX_DEPTH:
            self.fail_ahead("recursion limit exceeded")
        self._depth += 1
        self.at += 1
        yield
        self._depth -= 1

    def next_byte(self) -> int | None:
        """The next byte that is not white space, left unread; None at the end."""
        while (byte := self.peek()) is not None and byte in SPACE:
            self.at += 1
        return byte

    def peek(self) -> int | None:
        """The very next byte, left unread; None at the end."""
        return self.text[self.at] if self.at < len(self.text) else None

    def value_byte(self) -> int:
        """The first byte of the value that must come now, left unread."""
        byte = self.next_byte()
        if byte is None:
            self.fail_ahead("EOF while parsing a value")
        return byte

    def end(self) -> None:
        """Require that nothing but white space is left."""
        if self.next_byte() is not None:
            self.fail_ahead("trailing characters")

    def word(self) -> bool | None:
        """Read `null`, `true` or `false`."""
        rest, value = WORDS[self.text[self.at]]
        self.at += 1
        for expected in rest:
            byte = self.peek()
            if byte is None:
                self.fail("EOF while parsing a value")
            self.at += 1
            if byte != expected:
                self.fail("expected ident")
        return value

    def number(self) -> int | float:
        """Read a number: an int when it fits 64 bits and has no fraction, else a float."""
        return read_number(self)

    def string(self) -> str:
        """Read a string that starts at its opening quote."""
        self.at += 1
        parts = bytearray()
        while True:
            byte = self._string_byte()
            if byte == 0x22:
                break
            if byte == 0x5C:
                parts += self._escape().encode()
            elif byte < 0x20:
                self.fail("control character (\\u0000-\\u001F) found while parsing a string")
            else:
                parts.append(byte)
        try:
            return parts.decode()
        except UnicodeDecodeError as error:
            self.at -= len(parts) - error.start
            self.fail("invalid unicode code point")

    def _string_byte(self) -> int:
        byte = self.peek()
        if byte is None:
            self.fail("EOF while parsing a string")
        self.at += 1
        return byte

    def _escape(self) -> str:
        byte = self._string_byte()
        if byte in ESCAPES:
            return ESCAPES[byte]
        if byte != ord("u"):
            self.fail("invalid escape")
        high = self._hex()
        if 0xDC00 <= high <= 0xDFFF:
            self.fail("lone leading surrogate in hex escape")
        if not 0xD800 <= high <= 0xDBFF:
            return chr(high)
        if self._string_byte() != 0x5C or self._string_byte() != ord("u"):
            self.fail("unexpected end of hex escape")
        low = self._hex()
        if not 0xDC00 <= low <= 0xDFFF:
            self.fail("lone leading surrogate in hex escape")
        return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))

    def _hex(self) -> int:
        digits = self.text[self.at : self.at + 4]
        self.at += len(digits)
        if len(digits) < 4:
            self.fail("EOF while parsing a string")
        if not all(digit in b"0123456789abcdefABCDEF" for digit in digits):
            self.fail("invalid escape")
        return int(digits, 16)
