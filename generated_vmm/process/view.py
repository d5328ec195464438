"""The members that all monitors share, and how monitors are created."""

from __future__ import annotations

import socket
from abc import abstractmethod
from pathlib import Path
from typing import Generic, TypeVar, cast

from generated_vmm.process.errors import MonitorError
from generated_vmm.process.jail import Jail
from generated_vmm.process.jail_files import inside
from generated_vmm.process.owner import Ending, Owner
from generated_vmm.process.place import Place
from generated_vmm.process.program import Usage, usage_of
from generated_vmm.process.settings import HostPath, Settings

Client = TypeVar("Client")


class MonitorView(Generic[Client]):
    """The members of a monitor, for threads and for tasks."""

    _owner: Owner
    _client: Client | None = None
    _place_kind: type[Place] = Place

    @abstractmethod
    def _set_up(self, place: Place) -> None:
        """Creates the outlets, and the owner, which has no keeper yet."""

    @property
    def client(self) -> Client:
        """The client of the monitor; its calls raise `MonitorExited` once the monitor has ended.

        Raises `MonitorError` before the start.
        """
        if self._client is None:
            raise MonitorError("the monitor has not been started")
        return self._client

    @property
    def directory(self) -> Path:
        """The monitor's folder. Raises `MonitorError` for a temporary one before the start."""
        return self._owner.place.directory

    @property
    def socket_path(self) -> Path:
        """The API's socket; as with `directory`, `MonitorError` is possible before the start."""
        return Path(self._owner.place.socket_path)

    @property
    def id(self) -> str | None:
        """The instance id of the monitor."""
        return self._owner.place.id

    @property
    def pid(self) -> int:
        """The process id. Raises `MonitorError` before the start."""
        return self._owner.pid

    @property
    def running(self) -> bool:
        """Whether the process has been started and has not ended."""
        return self._owner.is_running

    @property
    def returncode(self) -> int | None:
        """The exit status as in `subprocess`: negative for a signal.

        None while the process runs, after `detach`, and if the monitor's keeper was killed.
        """
        return self._owner.returncode

    @property
    def ending(self) -> Ending | None:
        """How this handle is over: "ended" with a `returncode`, "handed over" by `detach`, "lost".

        "lost" means that the monitor's keeper was killed, and the monitor with it. None before.
        """
        return self._owner.ending

    def connect(self, connection: socket.socket) -> None:
        """Connects a socket to the API, for a second client with a channel of its own.

        Raises OSError unless a process of this monitor listens there.
        """
        self._owner.connect(connection)

    def usage(self) -> Usage:
        """The process's use of the host. Raises `MonitorExited` if it has ended."""
        found = usage_of(self._owner.pid) if self._owner.is_running else None
        if found is None or not self._owner.is_running:
            raise self._owner.exited()
        return found

    @property
    def _settings(self) -> Settings:
        return self._owner.place.settings

    def _grace(self, grace: float | None) -> float:
        return self._settings.grace if grace is None else grace

    def _require_detached(self) -> None:
        if not self._settings.detached:
            raise MonitorError("only a detached monitor can be given up")
        _ = self.pid

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._owner!r}>"


class JailView(MonitorView[Client]):
    """The paths of a jail. The monitor only knows the paths inside."""

    _place_kind = Jail

    @property
    def _jail(self) -> Jail:
        return cast(Jail, self._owner.place)

    @property
    def root(self) -> Path:
        """The folder that is `/` to the monitor."""
        return self._jail.root

    def inside(self, path: HostPath) -> str:
        """A path of the host as the monitor sees it. Raises ValueError for one outside the jail."""
        return inside(self._jail.root, path)

    def outside(self, path: HostPath) -> Path:
        """The path on the host of a path that the monitor sees.

        The jailed user owns the root: the file may be a link, to anywhere.
        """
        return self._jail.outside(path)
