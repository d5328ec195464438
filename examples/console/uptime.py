"""Since when a machine runs, as far as this console knows."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from examples.console.machine import NO_ANSWER, PAUSED, RUNNING

STARTED: Final = frozenset({RUNNING, PAUSED})


class Uptime:
    """Notes when a machine is seen to start.

    The monitor does not report it. A machine that runs when it is first seen has run at most since
    its socket was created.
    """

    def __init__(self, socket_path: str) -> None:
        self._socket = Path(socket_path)
        self._seen = False
        self.since: datetime | None = None

    def note(self, state: str) -> None:
        """Note that the machine was seen in `state`; `No answer` changes nothing."""
        if state in STARTED:
            self.since = self.since or (datetime.now(UTC) if self._seen else self._dated())
        elif state != NO_ANSWER:
            self.since = None
        self._seen = self._seen or state != NO_ANSWER

    def _dated(self) -> datetime | None:
        try:
            return datetime.fromtimestamp(self._socket.lstat().st_mtime, UTC)
        except OSError:
            return None
