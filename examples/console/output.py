"""What a guest has written: its screen and text, the last bytes for screens, and those on disk."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

SIZES: Final = ((80, 24), (100, 30), (132, 43))
"""The selectable sizes: columns and rows."""
BEHIND_BYTES: Final = 24_576
"""Older bytes have scrolled away before a user could read them."""
STEP_BYTES: Final = 128
"""Bytes between two looks at the time."""
BUDGET_SECONDS: Final = 0.3
"""The processor time for one screen, at most; that of other programs does not count."""
TOO_MUCH: Final = "This output takes too long to show: download it."


def screen_of(output: bytes, columns: int, rows: int, *, bare_newlines: bool = False) -> list[str]:
    """The rows that a terminal shows after an output, without colours.

    `bare_newlines`: the guest has no terminal driver that begins a new line at the left.
    """
    # Imported late: a console without machines shows its first page sooner.
    import pyte

    screen = pyte.Screen(columns, rows)
    if bare_newlines:
        screen.set_mode(pyte.modes.LNM)
    stream, end = pyte.ByteStream(screen), time.thread_time() + BUDGET_SECONDS
    for begin in range(0, len(output), STEP_BYTES):
        if time.thread_time() > end:
            return [TOO_MUCH]
        try:
            stream.feed(output[begin : begin + STEP_BYTES])
        except Exception as error:
            # A sequence that the emulator does not know may end in any error.
            logging.getLogger(__name__).debug("a guest's sequence is not known: %r", error)
            stream = pyte.ByteStream(screen)
    return [line.rstrip() for line in screen.display]


_SEQUENCE: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\^-~])"
)
"""Colours, cursor movements and titles of terminals (ECMA-48 5.4 and 5.6)."""
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def exit_in_words(returncode: int | None) -> str:
    """The exit status in words; None is one that only its parent knows."""
    if returncode is None:
        return "its exit status is not known here"
    if returncode >= 0:
        return f"exit status {returncode}"
    return f"killed by {_signal(-returncode)}"


def _signal(number: int) -> str:
    try:
        return f"{signal.Signals(number).name} (signal {number})"
    except ValueError:
        return f"signal {number}"


def plain_text(written: bytes) -> str:
    """A guest's output, without cursor movements and colours of terminals."""
    return _CONTROL.sub("", _SEQUENCE.sub("", written.decode(errors="replace")))


def plain_lines(written: bytes) -> list[str]:
    """The lines of it that are not empty."""
    return [line.strip() for line in plain_text(written).splitlines() if line.strip()]


PART_BYTES: Final = 4 << 20
"""The size in bytes at which the file becomes the older part; there are two parts."""


class Scrollback:
    """A file that grows, and the part before it."""

    def __init__(self, path: Path, part_bytes: int = PART_BYTES) -> None:
        self._path = path
        self._older = path.with_suffix(".older")
        self._part_bytes = part_bytes

    def append(self, data: bytes) -> None:
        """Write output; a failed write is logged, and its output lost."""
        try:
            with self._path.open("ab") as file:
                file.write(data)
                length = file.tell()
            if length > self._part_bytes:
                self._path.replace(self._older)
        except OSError as error:
            logging.getLogger(__name__).warning("%s cannot be written: %s", self._path, error)

    def read(self, most: int | None = None) -> bytes:
        """The last `most` bytes, or all that are stored."""
        newer = _end_of(self._path, most)
        missing = None if most is None else most - len(newer)
        return _end_of(self._older, missing) + newer

    def remove(self) -> None:
        """Remove both parts."""
        self._path.unlink(missing_ok=True)
        self._older.unlink(missing_ok=True)


def _end_of(path: Path, most: int | None) -> bytes:
    try:
        with path.open("rb") as file:
            if most is not None:
                file.seek(max(file.seek(0, 2) - most, 0))
            return file.read()
    except FileNotFoundError:
        return b""


KEPT_BYTES: Final = 1 << 18
"""Bytes that a screen gets when it opens."""
STREAM_SECONDS: Final = 15.0
"""How long a response goes on; then the browser asks again, if its user may still look."""


def number_in(text: str) -> int:
    """The number that a browser sends back; -1 for anything else."""
    return int(text) if text.isdecimal() and len(text) < 19 else -1


class Feed:
    """The end of an output; a position in it is a text that browsers send back."""

    def __init__(self, begin: bytes = b"") -> None:
        self._name, self._data, self._end = secrets.token_hex(4), bytearray(), 0
        self._news = asyncio.Event()
        self._is_over = False
        self.add(begin)

    def add(self, data: bytes) -> None:
        """Adds output, and wakes those that wait for it."""
        self._data += data
        self._end += len(data)
        del self._data[:-KEPT_BYTES]
        self._wake()

    def end(self) -> None:
        """Ends all streams."""
        self._is_over = True
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def start(self, position: str) -> tuple[int, bool]:
        """Where a stream from `position` begins, and whether what came before is lost to it."""
        name, _, number = position.partition(".")
        first = self._end - len(self._data)
        if name == self._name and first <= (at := number_in(number)) <= self._end:
            return at, False
        return first, True

    def position(self, at: int | None = None) -> str:
        """The text for a position; the end without one."""
        return f"{self._name}.{self._end if at is None else at}"

    def last(self, most: int) -> bytes:
        """The last bytes."""
        return bytes(self._data[-most:])

    async def follow(self, at: int, seconds: float = STREAM_SECONDS) -> AsyncIterator[bytes]:
        """The output from a position on, for some seconds."""
        deadline = asyncio.get_running_loop().time() + seconds
        while not self._is_over:
            news, first = self._news, self._end - len(self._data)
            if at < self._end:
                yield bytes(self._data[max(at - first, 0) :])
                at = self._end
                continue
            try:
                async with asyncio.timeout_at(deadline):
                    await news.wait()
            except TimeoutError:
                return
