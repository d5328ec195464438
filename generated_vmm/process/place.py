"""Where a monitor runs: its folder, what it is told, and what is left to remove."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, Self

from generated_vmm.process.child import Child
from generated_vmm.process.errors import MonitorError, MonitorStartError
from generated_vmm.process.launch import find_program
from generated_vmm.process.settings import (
    HostPath,
    Paths,
    Settings,
    in_json,
    monitor_arguments,
    require_short,
)
from generated_vmm.process.state import STATE, is_running
from generated_vmm.process.warden import Leftovers, is_served

SOCKET, CONSOLE_INPUT, CONSOLE_OUTPUT, LOG, METRICS = (
    "api.socket",
    "console.in",
    "console.out",
    "log",
    "metrics",
)


PATHS = ("socket_path", "config_file", "metadata", "seccomp_filter", "log_path", "metrics_path")


class Place(Protocol):
    """Where a monitor runs, bare or jailed; all paths are the host's unless said otherwise."""

    settings: Settings
    id: str | None

    @property
    def directory(self) -> Path:
        """The monitor's folder."""
        ...

    @property
    def socket_path(self) -> str:
        """The API's socket."""
        ...

    def prepare(self) -> None:
        """Makes the folder and the fifos. `MonitorStartError` when the place is taken."""
        ...

    def words(self) -> list[str]:
        """The command line."""
        ...

    def outlet(self, name: str) -> str:
        """The fifo for the log or the metrics."""
        ...

    def console_input(self) -> str:
        """The fifo that leads to the guest's console."""
        ...

    def log_file(self) -> str | None:
        """The file in which the log can be read too, None for the outlet alone."""
        ...

    def outside(self, path: str) -> str:
        """A path as the monitor says it, on the host."""
        ...

    def monitor_of(self, started: Child) -> Child:
        """The monitor's process, given the one that was started for it."""
        ...

    def leftovers(self) -> Leftovers:
        """What has been made up to now and is to be removed after the end."""
        ...

    def how(self) -> dict[str, object]:
        """What makes this place again, in a form for JSON."""
        ...


class Bare:
    """A monitor in a folder of its own, which sees the host's files."""

    def __init__(self, binary: HostPath | Sequence[HostPath], settings: Settings) -> None:
        self.settings = settings
        self.id = settings.id
        words = [binary] if isinstance(binary, str | os.PathLike) else binary
        self._binary = [os.fspath(word) for word in words]
        if not self._binary:
            raise ValueError("binary is an empty sequence; it names the monitor's program")
        if settings.detached and settings.directory is None:
            raise ValueError("a detached monitor needs a directory to be found by")
        directory = _absolute(settings.directory)
        self._directory = None if directory is None else Path(directory)
        self._socket_path = _absolute(settings.socket_path)
        self._leftovers = Leftovers()
        if self._socket_path or self._directory:
            require_short(self.socket_path)

    @property
    def directory(self) -> Path:
        """The monitor's folder; a temporary one is there from the start on."""
        if not self._directory:
            raise MonitorError("the monitor has no folder before it is started")
        return self._directory

    @property
    def socket_path(self) -> str:
        """The API's socket."""
        return self._socket_path or str(self.directory / SOCKET)

    def prepare(self) -> None:
        """Makes the folder and the fifos. `MonitorStartError` when the place is taken."""
        self._make_directory()
        require_short(self.socket_path)
        if is_running(self.directory):
            raise MonitorStartError(f"in {self.directory} a detached monitor runs: attach to it")
        self._leftovers.files.append(str(self.directory / STATE))
        if self._socket_path is None and not is_served(self.socket_path):
            Path(self.socket_path).unlink(missing_ok=True)  # in our folder: of an earlier monitor
        require_free(self.socket_path)
        self._leftovers.sockets.append(self.socket_path)
        for name in (CONSOLE_INPUT, CONSOLE_OUTPUT, LOG, METRICS):
            make_fifo(self.outlet(name))
            self._leftovers.files.append(self.outlet(name))

    def _make_directory(self) -> None:
        if not self._directory:
            self._directory = Path(tempfile.mkdtemp(prefix="vmm-"))
        elif self._directory.exists():
            return
        else:
            self._directory.mkdir(mode=0o700)
        self._leftovers.folders.append(str(self._directory))

    def words(self) -> list[str]:
        """The command line."""
        program, *first = self._binary
        found = find_program(program, self.settings.env)
        named = ["--id", self.settings.id] if self.settings.id else []
        return [found, *first, *named, *monitor_arguments(self.settings, self._told())]

    def _told(self) -> Paths:
        given = self.settings
        return Paths(
            socket=self.socket_path,
            log=_absolute(given.log_path) or self.outlet(LOG),
            metrics=_absolute(given.metrics_path) or self.outlet(METRICS),
            config_file=_absolute(given.config_file),
            metadata=_absolute(given.metadata),
            seccomp_filter=_absolute(given.seccomp_filter),
        )

    def outlet(self, name: str) -> str:
        """The fifo for the log or the metrics."""
        return str(self.directory / name)

    def console_input(self) -> str:
        """The fifo that leads to the guest's console."""
        return str(self.directory / CONSOLE_INPUT)

    def log_file(self) -> str | None:
        """The file in which the log can be read too, None for the outlet alone."""
        return _absolute(self.settings.log_path)

    def outside(self, path: str) -> str:
        """A path as the monitor says it, on the host."""
        return os.path.join(os.path.abspath(self.settings.cwd or "."), path)

    def monitor_of(self, started: Child) -> Child:
        """The process that was started."""
        return started

    def leftovers(self) -> Leftovers:
        """What has been made up to now and is to be removed after the end."""
        return self._leftovers

    def how(self) -> dict[str, object]:
        """What makes this place again, in a form for JSON, from whatever folder."""
        given = in_json(self.settings)
        given |= {name: _absolute(getattr(self.settings, name)) for name in PATHS}
        given["directory"], given["cwd"] = str(self.directory), self.outside("")
        return {"binary": self._binary, "settings": given, "leftovers": asdict(self._leftovers)}

    @classmethod
    def from_how(cls, how: Mapping[str, Any]) -> Self:
        """The place that gave this as `how`."""
        place = cls(how["binary"], Settings(**how["settings"]))
        place._leftovers = Leftovers(**how["leftovers"])
        return place


def require_free(socket_path: str) -> None:
    """`MonitorStartError` when there is something at the path of a new socket."""
    if is_served(socket_path):
        raise MonitorStartError(f"{socket_path} is taken: somebody listens there")
    if os.path.lexists(socket_path):
        raise MonitorStartError(
            f"{socket_path} exists although nobody listens there; remove it if nobody needs it"
        )


def make_fifo(path: str) -> None:
    """Makes a fifo that only its owner may use, in place of an older one."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISFIFO(os.lstat(path).st_mode):
            os.unlink(path)
    try:
        os.mkfifo(path, 0o600)
    except OSError as error:
        raise MonitorStartError(f"{path} cannot be made: {error.strerror}") from error


def _absolute(path: HostPath | None) -> str | None:
    return None if path is None else os.path.abspath(path)
