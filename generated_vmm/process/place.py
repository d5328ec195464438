"""Where a monitor runs: its folder, its paths, and the order for its keeper.

Paths are the host's unless said otherwise, and are resolved once.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Self

from generated_vmm.process.errors import MonitorError
from generated_vmm.process.keeper.conversation import Order
from generated_vmm.process.keeper.keeper import GIVEN_FOLDER
from generated_vmm.process.keeper.record import LOG, METRICS, SOCKET, Record
from generated_vmm.process.program import find_program
from generated_vmm.process.settings import (
    HostPath,
    Settings,
    absolute,
    monitor_arguments,
    without_environment,
)
from generated_vmm.transport.connection import LONGEST_PATH, fault_of_path

PATHS = ("config_file", "metadata", "seccomp_filter", "log_path", "metrics_path")
INHERITED = f"/proc/self/fd/{GIVEN_FOLDER}"


class Place:
    """A monitor in a folder of its own, which runs as this user and sees the host's files."""

    kind: ClassVar[str] = "monitor"
    _mode = 0o700  # of the folder
    _is_jailed = _is_init = False

    def __init__(self, binary: HostPath | Sequence[HostPath], settings: Settings) -> None:
        self.settings = settings
        self.id = settings.id
        self.uid = os.geteuid()
        """The user that the monitor runs as."""
        argv = [binary] if isinstance(binary, str | os.PathLike) else binary
        self._binary = [os.fspath(each) for each in argv]
        if not self._binary:
            raise ValueError("binary is an empty sequence; it names the monitor's program")
        if settings.detached and settings.directory is None:
            raise ValueError("a detached monitor needs a directory to be found by")
        directory = absolute(settings.directory)
        self._directory = None if directory is None else Path(directory)
        self._socket_path = absolute(settings.socket_path)
        if self._socket_path and (fault := fault_of_path(self._bound_path(self._socket_path))):
            raise ValueError(f"{fault}: {self._socket_path}")
        self._cwd = os.path.abspath(settings.cwd or ".")
        self._paths = {name: absolute(getattr(settings, name)) for name in PATHS}

    @property
    def directory(self) -> Path:
        """The monitor's folder; a temporary one is known after the start."""
        if self._directory is None:
            raise MonitorError("the monitor has no folder before it is started")
        return self._directory

    @property
    def socket_path(self) -> str:
        """The API's socket."""
        return self._socket_path or str(self.directory / SOCKET)

    def _bound_path(self, path: str) -> str:
        """The path by which the monitor binds its socket: a long one by a descriptor."""
        is_long = len(os.fsencode(path)) > LONGEST_PATH
        return f"{INHERITED}/{os.path.basename(path)}" if is_long else path

    def log_file(self) -> str | None:
        """The file that has the log too; None if only the outlet has it."""
        return self._paths["log_path"]

    def outside(self, path: HostPath) -> Path:
        """The path on the host of a path that the monitor sees."""
        return Path(self._cwd, path)

    def open_socket(self, path: str, root: int | None) -> int:
        """An O_PATH descriptor of a socket of the monitor's user. Raises OSError."""
        return self._require_own(os.open(self.outside(path), os.O_PATH | os.O_NOFOLLOW))

    def _require_own(self, descriptor: int) -> int:
        if os.fstat(descriptor).st_uid == self.uid:
            return descriptor
        os.close(descriptor)
        raise PermissionError(f"there is no socket of user {self.uid}")

    # For the keeper

    def known(self) -> dict[str, Any]:
        """What the nursery knows of the monitor."""
        if self._directory is None:
            self._directory = Path(tempfile.gettempdir(), f"vmm-{secrets.token_hex(6)}")
        return {"word": "keep", "path": str(self.directory)}

    def claim(self) -> dict[str, Any]:
        """The order for a keeper, to take the folder."""
        path, how = str(self.directory), self._how()
        record = Record(path, self.id, how, self._is_jailed, self.uid)
        return {"record": asdict(record), "mode": self._mode}

    def order(self) -> Order:
        """The order for the start. Raises `MonitorStartError` for what cannot be started."""
        env = os.environ if self.settings.env is None else self.settings.env
        return Order(
            argv=self._argv(),
            env=dict(env),
            cwd=self._cwd,
            timeout=self.settings.timeout,
            detached=self.settings.detached,
            socket=os.path.split(self._socket_path) if self._socket_path else ("", SOCKET),
            inherits=self._bound_path(self.socket_path) != self.socket_path,
        )

    def _argv(self) -> list[str]:
        program, *first = self._binary
        found = find_program("binary", program, self.settings.env)
        named = ["--id", self.settings.id] if self.settings.id else []
        paths = {
            **self._paths,
            "api_sock": self._bound_path(self.socket_path),
            "log_path": self._paths["log_path"] or str(self.directory / LOG),
            "metrics_path": self._paths["metrics_path"] or str(self.directory / METRICS),
        }
        return [found, *first, *named, *monitor_arguments(self.settings, paths)]

    def _how(self) -> dict[str, Any]:
        """The data for `from_how`, with absolute paths, in a form for JSON."""
        given = {**without_environment(self.settings), **self._paths, "cwd": self._cwd}
        given |= {"socket_path": self._socket_path, "directory": str(self.directory)}
        return {"kind": self.kind, "is_init": False, "binary": self._binary, "settings": given}

    @classmethod
    def from_how(cls, how: Mapping[str, Any]) -> Self:
        """The place whose data this is. Raises LookupError for a monitor of another kind."""
        if how["kind"] != cls.kind:
            raise LookupError(f"it is a {how['kind']}")
        return cls._made_of(how)

    @classmethod
    def _made_of(cls, how: Mapping[str, Any]) -> Self:
        return cls(how["binary"], Settings(**how["settings"]))
