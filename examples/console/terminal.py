"""What a guest has written: its screen, with limited work for any output, and its text."""

from __future__ import annotations

import logging
import re
import signal
import time
from typing import Final

SIZES: Final = ((80, 24), (100, 30), (132, 43))
"""The selectable sizes: columns and rows."""
BEHIND_BYTES: Final = 24_576
"""Older bytes have scrolled away before a user could read them."""
STEP_BYTES: Final = 128
"""Bytes between two looks at the time."""
BUDGET_SECONDS: Final = 0.3
"""The processor time for one screen, at most; that of other programs does not count."""
TOO_MUCH: Final = "This output takes too long to show: read it as text."


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
