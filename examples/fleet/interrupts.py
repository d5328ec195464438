"""How a program is told to end that has others to end before."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Final, NoReturn

ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def interrupt_once() -> None:
    """The first signal to end raises KeyboardInterrupt; the next ones do not disturb the ending."""
    for number in ENDING:
        signal.signal(number, _interrupt)


def ignore_interrupts() -> None:
    """What is being ended is ended."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    ignore_interrupts()
    raise KeyboardInterrupt
