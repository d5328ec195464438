"""The screen of a guest's console for pages without script, with limited work for any output."""

from __future__ import annotations

import logging
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
