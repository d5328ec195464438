"""Signals for a program that has to end others before it ends."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Final, NoReturn

ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def interrupt_once() -> None:
    """The first signal raises KeyboardInterrupt; later ones do not disturb the shutdown."""
    for number in ENDING:
        signal.signal(number, _interrupt)


def ignore_interrupts() -> None:
    """Ignores signals during the shutdown."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    ignore_interrupts()
    raise KeyboardInterrupt
