"""The members that all monitors share, and how monitors are created."""

from __future__ import annotations

import os
import socket
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from generated_vmm.process.broadcast import Work
from generated_vmm.process.child import Child, Usage
from generated_vmm.process.errors import MonitorError, MonitorExited, MonitorStartError
from generated_vmm.process.folders import hold
from generated_vmm.process.jail import Jail
from generated_vmm.process.jail_files import inside
from generated_vmm.process.run import Run
from generated_vmm.process.settings import HostPath, Settings
from generated_vmm.process.state import read_state
from generated_vmm.process.workspace import Workspace

Client = TypeVar("Client")


class MonitorView(Generic[Client]):
    """The members of a monitor, for threads and for tasks."""

    _run: Run
    _client: Client | None = None
    _workspace_kind: type[Workspace] = Workspace

    @abstractmethod
    def _set_up(self, workspace: Workspace) -> None:
        """Creates the outlets, and the run, which is not yet started."""

    @abstractmethod
    def _connect(self) -> None:
        """Creates the client."""

    @classmethod
    def _finding(cls, directory: HostPath) -> Work[tuple[Workspace, Child]]:
        kind, path = cls._workspace_kind, os.path.abspath(directory)
        return Work(partial(_find_detached, kind, path), "monitor-attach")

    def _take_up(self, workspace: Workspace, child: Child) -> None:
        self._set_up(workspace)
        self._run.take_up(child)
        self._connect()

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
        return self._run.workspace.directory

    @property
    def socket_path(self) -> Path:
        """The API's socket; as with `directory`, `MonitorError` is possible before the start."""
        return Path(self._run.workspace.socket_path)

    @property
    def id(self) -> str | None:
        """The instance id of the monitor."""
        return self._run.workspace.id

    @property
    def pid(self) -> int:
        """The process id. Raises `MonitorError` before the start."""
        return self._run.child.pid

    @property
    def running(self) -> bool:
        """Whether the process has been started and has not ended."""
        return self._run.is_running

    @property
    def returncode(self) -> int | None:
        """The exit status as in `subprocess`: negative for a signal.

        None while the process runs, and if only its parent knows the status: for a monitor from
        `attach`, or in a PID namespace of its own.
        """
        return self._run.returncode

    def connect(self, connection: socket.socket) -> None:
        """Connects a socket to the API, for a second client with a channel of its own.

        Raises OSError unless a process of this monitor listens there.
        """
        self._run.workspace.connect(connection)

    def usage(self) -> Usage:
        """The process's use of the host. Raises `MonitorExited` if it has ended."""
        found = self._run.child.usage()
        if found is None:
            raise self._run.exited()
        return found

    @property
    def _settings(self) -> Settings:
        return self._run.workspace.settings

    def _grace(self, grace: float | None) -> float:
        return self._settings.grace if grace is None else grace

    def _require_detached(self) -> None:
        if not self._settings.detached:
            raise MonitorError("only a detached monitor can be given up")
        _ = self.pid

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._run!r}>"


class JailView(MonitorView[Client]):
    """The paths of a jail. The monitor only knows the paths inside."""

    _workspace_kind = Jail

    @property
    def _jail(self) -> Jail:
        return cast(Jail, self._run.workspace)

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


def _find_detached(
    kind: type[Any], path: str, require_wanted: Callable[[], None]
) -> tuple[Workspace, Child]:
    """The workspace of this kind and the process of a detached monitor, whose folder is now held.

    Raises `MonitorExited` if it has ended, `MonitorError` if there is none or another owns it.
    """
    try:
        descriptor = hold(path, require_wanted)
    except (FileNotFoundError, NotADirectoryError):
        raise MonitorError(f"{path} is not the folder of a detached monitor") from None
    except (MonitorStartError, OSError) as error:
        raise MonitorError(str(error)) from error
    try:
        state = read_state(descriptor)
        if state is None or not state.is_detached:
            raise MonitorError(f"{path} is not the folder of a detached monitor")
        try:
            workspace: Workspace = kind.from_how(state.how)
        except (LookupError, TypeError, ValueError) as error:
            raise MonitorError(f"{path} has no monitor of this kind: {error!r}") from error
        child = state.child()
        if child is None:
            raise MonitorExited(f"the monitor of {path} has ended")
    except MonitorError:
        os.close(descriptor)
        raise
    except OSError as error:
        os.close(descriptor)
        raise MonitorError(f"the monitor of {path} cannot be taken up: {error}") from error
    try:
        workspace.take_back(descriptor, state)
    except OSError as error:
        workspace.abandon()
        raise MonitorError(f"the monitor of {path} cannot be taken up: {error}") from error
    return workspace, child
