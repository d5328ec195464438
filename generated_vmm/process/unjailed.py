"""A monitor in a folder of its own, without a jail."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from generated_vmm.process.child import find_program
from generated_vmm.process.errors import MonitorStartError
from generated_vmm.process.folders import make_fifo
from generated_vmm.process.removal import is_served
from generated_vmm.process.settings import (
    HostPath,
    Settings,
    absolute,
    monitor_arguments,
    require_short,
    without_environment,
)
from generated_vmm.process.things import Socket, Thing, Ward
from generated_vmm.process.workspace import LOG, METRICS, NAMES, SOCKET, Workspace

PATHS = ("config_file", "metadata", "seccomp_filter", "log_path", "metrics_path")


class Unjailed(Workspace):
    """A monitor in a folder of its own, which runs as this user and sees the host's files."""

    def __init__(self, binary: HostPath | Sequence[HostPath], settings: Settings) -> None:
        super().__init__()
        self.settings = settings
        self.id = settings.id
        self.uid = os.geteuid()
        argv = [binary] if isinstance(binary, str | os.PathLike) else binary
        self._binary = [os.fspath(each) for each in argv]
        if not self._binary:
            raise ValueError("binary is an empty sequence; it names the monitor's program")
        if settings.detached and settings.directory is None:
            raise ValueError("a detached monitor needs a directory to be found by")
        directory = absolute(settings.directory)
        self._directory = None if directory is None else Path(directory)
        self._socket_path = absolute(settings.socket_path)
        if self._socket_path or self._directory:
            require_short(self.socket_path)

    @property
    def socket_path(self) -> str:
        """The API's socket."""
        return self._socket_path or str(self.directory / SOCKET)

    def take(self, tell: Callable[[Ward], None], require_wanted: Callable[[], None]) -> None:
        """Holds the folder; see `Workspace.take`."""
        if self._directory is None:
            self._directory = Path(tempfile.gettempdir(), f"vmm-{secrets.token_hex(6)}")
        require_short(self.socket_path)
        super().take(tell, require_wanted)

    def prepare(self) -> None:
        """Creates the fifos. Raises `MonitorStartError` if something is in their place."""
        for name in NAMES[1:]:
            make_fifo(name, self.descriptor, self.directory)
        if self._socket_path is None and not is_served(self.socket_path):
            with contextlib.suppress(FileNotFoundError):  # of a monitor without an owner
                os.unlink(SOCKET, dir_fd=self.descriptor)
        if is_served(self.socket_path):
            raise MonitorStartError(f"{self.socket_path} is in use: another process listens there")
        if os.path.lexists(self.socket_path):
            raise MonitorStartError(
                f"{self.socket_path} exists although nothing listens there; "
                "remove it if it is not needed"
            )
        if self._socket_path is not None:
            self.own(Socket(self._socket_path))

    def argv(self) -> list[str]:
        """The command line."""
        program, *first = self._binary
        found = find_program(program, self.settings.env)
        named = ["--id", self.settings.id] if self.settings.id else []
        return [found, *first, *named, *monitor_arguments(self.settings, self._paths())]

    def _paths(self) -> dict[str, str | None]:
        given = {name: absolute(getattr(self.settings, name)) for name in PATHS}
        return {
            **given,
            "api_sock": self.socket_path,
            "log_path": given["log_path"] or str(self.directory / LOG),
            "metrics_path": given["metrics_path"] or str(self.directory / METRICS),
        }

    def outlet(self, name: str, flags: int) -> int:
        """Opens the fifo for the log or the metrics."""
        return self.open(name, flags)

    def open_socket(self, path: str | None = None) -> int:
        """An O_PATH descriptor of a socket; see `Workspace.open_socket`."""
        flags = os.O_PATH | os.O_NOFOLLOW
        if path is not None:
            return self.require_socket(os.open(self._outside(path), flags))
        if self._socket_path is not None:
            return self.require_socket(os.open(self._socket_path, flags))
        return self.require_socket(self.open(SOCKET, flags))

    def vsock_made_at(self, path: str) -> Thing | None:
        """The socket, unless its path is taken."""
        outside = self._outside(path)
        return None if os.path.lexists(outside) else Socket(outside)

    def log_file(self) -> str | None:
        """The file that has the log too; None if only the outlet has it."""
        return absolute(self.settings.log_path)

    def _outside(self, path: str) -> str:
        return os.path.join(os.path.abspath(self.settings.cwd or "."), path)

    def how(self) -> dict[str, Any]:
        """The data for `from_how`, with absolute paths."""
        given = without_environment(self.settings)
        given |= {name: absolute(getattr(self.settings, name)) for name in PATHS}
        given |= {"socket_path": self._socket_path, "directory": str(self.directory)}
        given["cwd"] = self._outside("")
        return {"binary": self._binary, "settings": given}

    @classmethod
    def from_how(cls, how: Mapping[str, Any]) -> Self:
        """The workspace whose `how` this is."""
        return cls(how["binary"], Settings(**how["settings"]))
