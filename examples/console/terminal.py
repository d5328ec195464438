"""The screen of a guest's console, on the server, with limited work for any output."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pyte.screens import Char

COLUMNS: Final = 100
ROWS: Final = 30
SIZES: Final = ((80, 24), (100, 30), (132, 43))
"""The selectable sizes: columns and rows."""
BEHIND_BYTES: Final = 24_576
"""Older bytes have scrolled away before a user could read them."""
STEP_BYTES: Final = 128
"""Bytes of one step, so few that other requests never wait for it."""
BUDGET_SECONDS: Final = 0.04
"""The maximum work of one read; the rest waits for the next."""
PAUSE_SECONDS: Final = 0.1
"""The minimum time between two interpretations of output."""
UNSEEN_BYTES: Final = 65_536
"""A longer sequence without a visible character is given up."""
_NAMES: Final = ("black", "red", "green", "brown", "blue", "magenta", "cyan", "white")
_NUMBERS: Final[Mapping[str, int]] = {
    **{name: number for number, name in enumerate(_NAMES)},
    **{f"bright{name}": number for number, name in enumerate(_NAMES)},
    **{"brightblack": 8, "bfightmagenta": 5},
}
"""The colours of the style sheet by the names of the emulator, one of which is misspelt."""


class Run(NamedTuple):
    """A piece of a row and the CSS classes for it."""

    text: str
    classes: str


class Terminal:
    """A screen with the guest's last output.

    `feed` only stores bytes; they are interpreted when the screen is read, a few at a time, and
    dropped if there are too many to read. `version` changes with the screen. `bare_newlines`: the
    guest has no terminal driver that begins a new line at the left.
    """

    def __init__(
        self, columns: int = COLUMNS, rows: int = ROWS, *, bare_newlines: bool = False
    ) -> None:
        # Imported late: a console without machines shows its first page sooner.
        import pyte

        self._screen = pyte.Screen(columns, rows)
        if bare_newlines:
            self._screen.set_mode(pyte.modes.LNM)
        self._stream = pyte.ByteStream(self._screen)
        self._pending = bytearray()
        self._turn = asyncio.Lock()
        self._next = 0.0
        self._unseen = 0
        self.version = 0

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        return self._screen.columns, self._screen.lines

    def resize(self, columns: int, rows: int) -> None:
        """Make the screen larger or smaller; the guest is not informed."""
        self._screen.resize(rows, columns)
        self.version += 1

    def feed(self, data: bytes) -> None:
        """Store output of the guest; the oldest is dropped if the screen is not read."""
        self._pending += data
        if len(self._pending) > BEHIND_BYTES:
            del self._pending[:-BEHIND_BYTES]
            self._give_up_sequence()

    async def catch_up(self) -> None:
        """Interpret new output, in steps between which other tasks run."""
        async with self._turn:
            if time.monotonic() < self._next or not self._pending:
                return
            end = time.monotonic() + BUDGET_SECONDS
            while self._pending and time.monotonic() < end:
                self._step()
                await asyncio.sleep(0)
            self.version += 1
            self._next = time.monotonic() + PAUSE_SECONDS

    def _step(self) -> None:
        step = bytes(self._pending[:STEP_BYTES])
        del self._pending[:STEP_BYTES]
        self._screen.dirty.clear()
        try:
            self._stream.feed(step)
        except Exception as error:
            # A sequence that the emulator does not know may end in any error.
            logging.getLogger(__name__).debug("a guest's sequence is not known: %r", error)
            self._give_up_sequence()
        self._unseen = 0 if self._screen.dirty else self._unseen + len(step)
        if self._unseen > UNSEEN_BYTES:
            self._give_up_sequence()

    def _give_up_sequence(self) -> None:
        """Treat an unfinished sequence as plain text from here on."""
        self._stream = type(self._stream)(self._screen)
        self._unseen = 0

    def rows(self) -> list[list[Run]]:
        """The screen from top to bottom; neighbours of the same style form one run."""
        return [self._row(number) for number in range(self._screen.lines)]

    def _row(self, number: int) -> list[Run]:
        by_look = groupby(self._cells(number), key=lambda cell: cell[1])
        runs = [Run("".join(text for text, _ in cells), look) for look, cells in by_look]
        if runs and not runs[-1].classes:
            runs[-1] = Run(runs[-1].text.rstrip(), "")
        return [run for run in runs if run.text]

    def _cells(self, number: int) -> Iterator[tuple[str, str]]:
        line, cursor = self._screen.buffer[number], self._screen.cursor
        for column in range(self._screen.columns):
            cell = line[column]
            here = (column, number) == (cursor.x, cursor.y) and not cursor.hidden
            yield cell.data, " ".join(_classes(cell, cursor=here))


def _classes(cell: Char, *, cursor: bool) -> Sequence[str]:
    colour, ground = _number(cell.fg), _number(cell.bg)
    flags = {
        "bold": cell.bold,
        "cursor": cursor,
        "inverse": cell.reverse,
        "italic": cell.italics,
        "strike": cell.strikethrough,
        "underline": cell.underscore,
    }
    return [
        *([] if colour is None else [f"c{colour}"]),
        *([] if ground is None else [f"g{ground}"]),
        *(name for name, true in flags.items() if true),
    ]


def _number(colour: str) -> int | None:
    """The colour of the style sheet nearest to one of the emulator's; None for the default."""
    if colour == "default" or colour in _NUMBERS:
        return _NUMBERS.get(colour)
    try:
        red, green, blue = bytes.fromhex(colour)
    except ValueError:
        return None
    return _nearest(red, green, blue)


def _nearest(red: int, green: int, blue: int) -> int:
    """The number whose bits say which of the three are strong."""
    peak = max(red, green, blue)
    if peak < 64:
        return 0
    if peak < 160 and min(red, green, blue) * 2 > peak:
        return 8
    return sum(1 << bit for bit, part in enumerate((red, green, blue)) if part * 2 > peak)
