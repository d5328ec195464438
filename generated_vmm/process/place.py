"""Where a monitor runs: its folder, its paths, its program, and the order for its keeper.

Paths are the host's unless said otherwise, and are resolved once.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, cast

from generated_vmm.process.errors import MonitorError, MonitorExited, MonitorStartError
from generated_vmm.process.keeper import record
from generated_vmm.process.keeper.kernel import Descriptor, Refused, exit_in_words
from generated_vmm.process.keeper.messages import visit
from generated_vmm.process.settings import (
    FILES,
    HostPath,
    MonitorOptions,
    checked,
    monitor_arguments,
)
from generated_vmm.transport.connection import LONGEST_PATH

NOT_DETACHED = (
    "is not the folder of a detached monitor, which Monitor(directory=..., detached=True) starts"
)
USER_TIME, SYSTEM_TIME, RESIDENT_PAGES = 11, 12, 21  # fields of /proc/PID/stat after the name
PATHS = ("log_path", "metrics_path", *FILES)
HOST_PATHS = ("directory", "cwd", *PATHS)


class Place:
    """A monitor in a folder of its own, which runs as this user and sees the host's files."""

    _is_jailed: ClassVar[bool] = False

    def __init__(self, binary: HostPath | Sequence[HostPath], options: Mapping[str, Any]) -> None:
        argv = [binary] if isinstance(binary, str | os.PathLike) else binary
        self._programs: list[Any] = [[os.fspath(each) for each in argv]]
        if not argv:
            raise ValueError("binary is an empty sequence; it names the monitor's program")
        self.settings = checked(options, MonitorOptions, HOST_PATHS)
        self.user = (os.geteuid(), os.getegid())
        if self.settings.get("detached") and "directory" not in self.settings:
            raise ValueError("a detached monitor needs a directory to be found by")
        self.settings.setdefault("cwd", os.path.abspath("."))

    @property
    def directory(self) -> Path:
        """The monitor's folder; a temporary one is known after the start."""
        if "directory" not in self.settings:
            raise MonitorError("the monitor has no folder before it is started")
        return Path(self.settings["directory"])

    @property
    def socket_path(self) -> str:
        """The API's socket."""
        return str(self.directory / record.SOCKET)

    def _bound_path(self) -> str:
        """The path by which the monitor binds its socket: a long one by a descriptor."""
        path = self.socket_path
        is_long = len(os.fsencode(path)) > LONGEST_PATH
        return f"/proc/self/fd/{record.GIVEN_FOLDER}/{record.SOCKET}" if is_long else path

    def outside(self, path: HostPath) -> Path:
        """The path on the host of a path that the monitor sees."""
        return Path(self.settings["cwd"], path)

    def open_socket(self, path: str, root: Descriptor | None) -> Descriptor:
        """An O_PATH descriptor of a socket of the monitor's user. Raises OSError."""
        return self._require_own(Descriptor(os.open, self.outside(path), os.O_PATH | os.O_NOFOLLOW))

    def _require_own(self, found: Descriptor) -> Descriptor:
        if os.fstat(found.number).st_uid != self.user[0]:
            raise PermissionError(f"there is no socket of user {self.user[0]}")
        return found

    def order(self) -> record.Order:
        """The order for the keeper. Raises `MonitorStartError` for what cannot be started."""
        if "directory" not in self.settings:
            self.settings["directory"] = f"{tempfile.gettempdir()}/vmm-{secrets.token_hex(6)}"
        return self._ordered(inherits=self._bound_path() != self.socket_path)

    def _ordered(self, groups: Sequence[str] = (), **options: Any) -> record.Order:
        path, id = str(self.directory), self.settings.get("id")
        return record.Order(
            record=record.Record(path, id, self._how(), jailed=self._is_jailed, groups=groups),
            user=self.user,
            argv=self._argv(),
            env=dict(self.settings.get("env", os.environ)),
            cwd=self.settings["cwd"],
            detached=self.settings.get("detached", False),
            **options,
        )

    def _argv(self) -> list[str]:
        program, *first = self._programs[0]
        named = ["--id", self.settings["id"]] if "id" in self.settings else []
        folder = self.directory
        paths = {
            "log_path": str(folder / record.LOG),
            "metrics_path": str(folder / record.METRICS),
            **{name: self.settings[name] for name in PATHS if name in self.settings},
            "api_sock": self._bound_path(),
        }
        found = find_program("binary", program, self.settings.get("env"))
        return [found, *first, *named, *monitor_arguments(self.settings, paths)]

    def _how(self) -> dict[str, Any]:
        """The data for `found_in`, without the environment, which may contain secrets."""
        settings = {name: value for name, value in self.settings.items() if name != "env"}
        return {"programs": self._programs, "settings": settings}

    # A place where a monitor runs

    @classmethod
    def found_in(cls, directory: HostPath) -> Self:
        """Where the monitor of a folder is. Raises `MonitorError` if it is of another kind."""
        path, create = os.path.abspath(directory), cast(Callable[..., Self], cls)
        with _opened(path) as folder:
            found = _record_in(folder, path)
        if found.jailed is not cls._is_jailed:
            kind = "in" if found.jailed else "without"
            raise MonitorError(f"{path} has no monitor of this kind: it is {kind} a jail")
        if not found.how:
            raise _ended(found)
        return create(*found.how["programs"], found.how["settings"])

    def attach(self) -> socket.socket:
        """The connection to the keeper, whose owner this process is now.

        Raises `MonitorExited` if the monitor has ended, `MonitorError` if another process owns it.
        """
        path = str(self.directory)
        with _opened(path) as folder:
            if (found := visit(folder, path, "attach")) is None:
                raise _ended(_record_in(folder, path))
        (word, *known), connection = found
        if word != "adopted":
            connection.close()
            how = "only a detached monitor is given up, by its detach()"
            raise MonitorError(f"{path} is in use by process {known[0]} and its owner: {how}")
        connection.settimeout(None)
        return connection


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    try:
        with record.open_private(path) as folder:
            yield folder.number
    except MonitorError:
        raise
    except (FileNotFoundError, NotADirectoryError):
        raise MonitorError(f"{path} {NOT_DETACHED}") from None
    except (Refused, OSError) as error:
        raise MonitorError(f"the monitor of {path} cannot be attached to: {error}") from error


def _record_in(folder: int, path: str) -> record.Record:
    found = record.read_record(folder, path)
    if found is None:
        raise MonitorError(f"{path} {NOT_DETACHED}")
    return found


def _ended(found: record.Record) -> MonitorExited:
    if found.ended is None:
        return MonitorExited(f"the monitor of {found.path} was lost: its keeper was killed")
    how = exit_in_words(found.ended)
    return MonitorExited(f"the monitor of {found.path} has ended {how}", returncode=found.ended)


@dataclass(frozen=True)
class Usage:
    """What a process has used: processor time since its start, and memory in use.

    `at` is `time.monotonic()` in seconds: the processor's share between two usages is the
    difference of their `cpu_seconds` divided by the difference of their `at`. `memory_bytes` is
    resident memory; of the guest's memory, only pages that it has touched count.
    """

    at: float
    cpu_seconds: float
    memory_bytes: int


def usage_of(pid: int) -> Usage | None:
    """The usage of a process; None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    ticks = int(fields[USER_TIME]) + int(fields[SYSTEM_TIME])
    memory = int(fields[RESIDENT_PAGES]) * os.sysconf("SC_PAGE_SIZE")
    return Usage(time.monotonic(), ticks / os.sysconf("SC_CLK_TCK"), memory)


def find_program(option: str, name: str, env: Mapping[str, str] | None) -> str:
    """The absolute path of a program. Raises `MonitorStartError` if it cannot be run."""
    if Path(name).is_socket():
        raise MonitorStartError(f"{name} is the socket of a monitor: VmmClient(path) controls that")
    found = shutil.which(name, path=None if env is None else env.get("PATH"))
    if found is None:
        reason = "does not exist"
        if " " in name:
            reason += f"; with arguments it is a list: {shlex.split(name)}"
        if os.path.exists(name):
            reason = "is a folder" if Path(name).is_dir() else "is not executable"
        raise MonitorStartError(f"{option} {name!r} {reason}")
    return os.path.abspath(found)
