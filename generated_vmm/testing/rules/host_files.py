"""Host files a body names, opened as the monitor would; its words when it cannot."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path
from typing import Final

from generated_vmm.testing.machine import Fault, MonitorOptions

NUL: Final = "file name contained an unexpected NUL byte"
NUL_IN_SOCKET: Final = "paths must not contain interior null bytes"


def open_fault(path: str, flags: int = os.O_RDONLY) -> str:
    """Why the path cannot be opened, in the system's words; empty when it can."""
    try:
        os.close(os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC))
    except (OSError, ValueError) as error:
        return system_reason(error)
    return ""


def connect_fault(path: str) -> str:
    """Why nobody can be reached at the unix socket, in the system's words; empty when one can."""
    if "\0" in path:
        return NUL_IN_SOCKET
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as backend:
        try:
            backend.connect(path)
        except (OSError, ValueError) as error:
            return system_reason(error)
    return ""


def require_file(
    options: MonitorOptions, path: str, refusal: str, *, writable: bool = False
) -> None:
    """Refuse a path that cannot be opened; `{}` in the refusal stands for the system's reason."""
    if not options.check_files:
        return
    reason = open_fault(path, os.O_RDWR if writable else os.O_RDONLY)
    if reason:
        raise Fault(refusal.replace("{}", reason, 1))


def size_of(path: str) -> int:
    """Bytes of the file; 0 when it cannot be looked at."""
    try:
        return os.stat(path).st_size
    except (OSError, ValueError):
        return 0


def system_reason(error: OSError | ValueError) -> str:
    """The reason as the monitor prints it."""
    if isinstance(error, ValueError):
        return NUL
    if error.errno is None:
        return str(error)
    return f"{os.strerror(error.errno)} (os error {error.errno})"


def is_directory(path: str) -> bool:
    """Whether there is a folder; False for what is no path."""
    return Path(path).is_dir()
