"""The host's files and sockets, opened as the monitor does, and its texts for failures."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator

from generated_vmm.testing.machine import Fault, Machine


@contextlib.contextmanager
def refusing(text: str, raising: type[Exception] = Fault) -> Iterator[None]:
    """Raise an error if the host refuses; `{}` in the text is replaced by the reason."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise raising(text.replace("{}", reason_of(error), 1)) from None


def reason_of(error: OSError | ValueError) -> str:
    """The reason as the monitor prints it."""
    if isinstance(error, OSError) and error.errno is not None:
        return f"{os.strerror(error.errno)} (os error {error.errno})"
    if str(error) == "embedded null byte":
        return "file name contained an unexpected NUL byte"
    return str(error)


def open_once(path: str, flags: int = os.O_RDONLY) -> None:
    """Open the file and close it. Raises `OSError`, `ValueError`."""
    os.close(os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC))


def require_file(machine: Machine, path: str | None, refusal: str) -> None:
    """Refuse a path that cannot be opened, unless it is None or files are not checked."""
    if machine.options.check_files and path is not None:
        with refusing(refusal):
            open_once(path)


def connect_once(path: str) -> None:
    """Connect to the unix socket. Raises `OSError`, `ValueError`."""
    require_socket_path(path)
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as backend:
        backend.connect(path)


def require_socket_path(path: str) -> None:
    """Raise `ValueError` for a path that no unix socket can have."""
    if "\0" in path:
        raise ValueError("paths must not contain interior null bytes")
    if len(path) > 107:
        raise ValueError("path must be shorter than SUN_LEN")


def size_of(path: str) -> int:
    """The size of the file in bytes; 0 if it cannot be read."""
    try:
        return os.stat(path).st_size
    except (OSError, ValueError):
        return 0
