"""Counts the system calls of a caller, its nursery and its keepers, and lets something happen.

A moment is before one of these calls. The standard library alone: the nursery uses it too.
"""

import fcntl
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

CALLS: dict[Any, tuple[str, ...]] = {
    os: (
        *("dup", "execve", "fchmod", "fchown", "fork", "fsync", "kill", "killpg", "link", "mkdir"),
        *("memfd_create", "mkfifo", "open", "pidfd_open", "pipe", "posix_spawn", "rename", "rmdir"),
        *("setsid", "symlink", "unlink", "waitpid", "write"),
    ),
    fcntl: ("flock",),
    signal: ("pidfd_send_signal",),
    socket: ("send_fds",),
}
_open, _write, _close = os.open, os.write, os.close


@dataclass
class Moment:
    """Which moment it is, of which caller; `place` is a folder for what the processes share."""

    number: int
    event: str
    caller: int
    place: Path

    @property
    def counter(self) -> Path:
        """A file that has a byte for each call."""
        return self.place / "count"

    def nursery(self) -> int | None:
        """The caller's nursery."""
        found = self.place / "nursery"
        return int(found.read_text()) if found.exists() else None

    def next(self) -> int:
        """The number of the call that comes now."""
        file = _open(self.counter, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            _write(file, b".")
            return os.lseek(file, 0, os.SEEK_CUR)
        finally:
            _close(file)


def count_calls(moment: Moment, happen: Callable[[str, tuple[Any, ...]], object]) -> None:
    """Calls `happen` with the name and the arguments of the call at the moment.

    In the caller, only the threads that follow keepers count.
    """
    main = threading.main_thread().ident

    def counted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*given: Any, **named: Any) -> Any:
            is_ours = threading.get_ident() != main or os.getpid() != moment.caller
            if is_ours and moment.next() == moment.number + 1:
                happen(name, given)
            return call(*given, **named)

        return counting

    for module, names in CALLS.items():
        for name in names:
            setattr(module, name, counted(name, getattr(module, name)))


class Line:
    """Raises at a line of ours that this thread executes, as a signal handler may."""

    def __init__(self, moment: Moment, error: type[Exception]) -> None:
        self._moment, self._error, self._count = moment, error, 0

    def __enter__(self) -> None:
        sys.settrace(self._trace)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        self._moment.counter.write_bytes(bytes(self._count))

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        self._count += event == "line"
        if self._count == self._moment.number + 1:
            sys.settrace(None)
            raise self._error
        name = frame.f_globals.get("__name__", "")
        return (
            self._trace if name.startswith(("generated_vmm", "threading", "contextlib")) else None
        )
