"""How a monitor has ended, and its guest's last output, in words."""

from __future__ import annotations

import re
import signal
from typing import Final

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
