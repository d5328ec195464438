"""What a monitor shows, whether one waits for it with threads or with tasks."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TypeAlias

from generated_vmm.process.process import Process
from generated_vmm.process.usage import Usage, usage_of

POLL_SECONDS = 0.005  # between two looks at whether the socket answers
ASKING_SECONDS = 1.0  # for the questions to a monitor that is to end, which may hang

Ending: TypeAlias = tuple[
    tuple[signal.Signals, float], ...
]  # signals, and seconds for each to work
KILLING: Ending = ((signal.SIGKILL, 30.0),)
ENDING: Ending = ((signal.SIGTERM, 2.0), *KILLING)


class MonitorBase:
    """The process of a monitor."""

    _process: Process

    @property
    def directory(self) -> Path:
        """The monitor's folder. `MonitorError` for a temporary one before the start."""
        return self._process.place.directory

    @property
    def socket_path(self) -> Path:
        """The API's socket. `MonitorError` for one in a temporary folder before the start."""
        return Path(self._process.place.socket_path)

    @property
    def id(self) -> str | None:
        """The instance id that the monitor was given."""
        return self._process.place.id

    @property
    def pid(self) -> int:
        """The number of the process. `MonitorError` before the start."""
        return self._process.child.pid

    @property
    def running(self) -> bool:
        """Whether the process has been started and has not ended."""
        return self._process.is_running

    @property
    def returncode(self) -> int | None:
        """The exit status as in `subprocess`: negative for a signal.

        None while the process runs, and when only its parent was told, as for a monitor that was
        taken up with `attach` or that is in a PID namespace of its own.
        """
        return self._process.returncode

    def usage(self) -> Usage:
        """What the process has used of the host. `MonitorExited` when it has ended."""
        found = usage_of(self.pid)
        if found is None or not self.running:
            raise self._process.exited()
        return found

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._process.in_words()}>"
