"""The errors of a monitor's process.

MonitorError (a VmmError)
  MonitorStartError   it could not be started
  MonitorExited       it ended, not by this process (also a VmmConnectionError)
"""

from __future__ import annotations

from collections.abc import Sequence

from generated_vmm.errors import VmmConnectionError, VmmError, shorten

QUOTED_LINES = 3


class MonitorError(VmmError):
    """A failure of a monitor's process, or of something that it needs.

    `returncode` is its exit status as in `subprocess`, negative for a signal, None if there is
    none or it is unknown; `log` has the last lines of its log.
    """

    def __init__(
        self, message: str, *, returncode: int | None = None, log: Sequence[str] = ()
    ) -> None:
        super().__init__(message + quoted(log))
        self.returncode = returncode
        self.log = tuple(log)


class MonitorStartError(MonitorError):
    """The monitor could not be started; the attempt leaves nothing behind."""


class MonitorExited(MonitorError, VmmConnectionError):
    """The monitor ended although this process did not end it."""


def quoted(log: Sequence[str]) -> str:
    """The last lines of a log as the end of a message; empty if there are none."""
    lines = [shorten(printable(line)) for line in log[-QUOTED_LINES:]]
    return "".join(["; its last log lines:", *(f"\n  {line}" for line in lines)]) if lines else ""


def printable(text: str) -> str:
    """The text, with control characters written as escapes."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
