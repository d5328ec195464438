"""What a monitor shows, whether one waits for it with threads or with tasks."""

from __future__ import annotations

import signal
from abc import abstractmethod
from pathlib import Path
from typing import Generic, Self, TypeAlias, TypeVar

from generated_vmm.process.errors import MonitorError
from generated_vmm.process.place import Bare, Place
from generated_vmm.process.process import Process
from generated_vmm.process.settings import HostPath
from generated_vmm.process.state import State, read_state
from generated_vmm.process.usage import Usage, usage_of

Client = TypeVar("Client")
ASKING_SECONDS = 1.0  # for the questions to a monitor that is to end, which may hang

# signals, and the seconds for each to work
Ending: TypeAlias = tuple[tuple[signal.Signals, float], ...]
KILLING: Ending = ((signal.SIGKILL, 30.0),)
ENDING: Ending = ((signal.SIGTERM, 2.0), *KILLING)


class MonitorBase(Generic[Client]):
    """The process of a monitor, and its client."""

    _process: Process
    _client: Client | None = None

    @classmethod
    def _taken_up(cls, directory: HostPath) -> Self:
        """A monitor for a process that was written down in a folder."""
        state = read_state(directory)
        monitor = cls.__new__(cls)
        try:
            monitor._set_up(cls._place_from(state))
        except (LookupError, TypeError, ValueError) as error:
            raise MonitorError(f"{directory} is no {cls.__name__}'s: {error!r}") from error
        monitor._process.take_up(state)
        monitor._connect()
        return monitor

    @classmethod
    def _place_from(cls, state: State) -> Place:
        return Bare.from_how(state.how)

    @abstractmethod
    def _set_up(self, place: Place) -> None:
        """Makes the outlets and the process that is not yet started."""

    @abstractmethod
    def _connect(self) -> None:
        """Makes the client."""

    @property
    def client(self) -> Client:
        """The client of the monitor; its calls raise `MonitorExited` once the monitor has ended.

        `MonitorError` before the start.
        """
        if self._client is None:
            raise MonitorError("the monitor has not been started")
        return self._client

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
