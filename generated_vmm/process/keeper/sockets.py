"""The unix sockets of a monitor, and who listens on one."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import stat
import time

from generated_vmm.process.keeper import kernel
from generated_vmm.process.keeper.kernel import FOLDER, Descriptor, Refused
from generated_vmm.process.keeper.messages import peer_of

REQUEST = b"GET /vm/config HTTP/1.1\r\nHost: localhost\r\n\r\n"
ANSWER_SECONDS = 1.0
MOST_BYTES = 65_536


def open_listening(folder: Descriptor, path: str, user: int) -> Descriptor:
    """An O_PATH descriptor of a socket on which a process of ours listens: it leads nowhere else.

    Raises OSError if nobody listens, `Refused` if somebody else does.
    """
    found = open_beneath(folder.number, path)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.setblocking(False)
        connection.connect(f"/proc/self/fd/{found.number}")
        pid, uid = peer_of(connection)
    if uid != user or not kernel.is_descendant(pid):
        raise Refused(f"{path}: process {pid} of user {uid} listens there, and not the monitor")
    return found


def open_beneath(folder: int, path: str) -> Descriptor:
    """An O_PATH descriptor of a socket below a folder, followed without links. Raises OSError."""
    step = Descriptor(os.dup, folder)
    *folders, name = [each for each in path.split("/") if each]
    for each in folders:
        step = Descriptor(os.open, each, FOLDER, dir_fd=step.number)
    found = Descriptor(os.open, name, os.O_PATH | os.O_NOFOLLOW, dir_fd=step.number)
    if not stat.S_ISSOCK(os.fstat(found.number).st_mode):
        raise FileNotFoundError(f"{path} is no socket")
    return found


def is_served(path: str) -> bool:
    """Whether a process listens on a unix socket, of any type."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.setblocking(False)
        try:
            connection.connect(path)
        except OSError as error:  # EPROTOTYPE: one of another type; EAGAIN: its queue is full
            return error.errno in (errno.EPROTOTYPE, errno.EAGAIN)
        return True


def vsock_path(api: Descriptor) -> str:
    """The path of a vsock device's socket, as the monitor says.

    Raises OSError, and LookupError, TypeError, ValueError or RecursionError if it says none.
    """
    deadline, received = time.monotonic() + ANSWER_SECONDS, b""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ANSWER_SECONDS)
        connection.connect(f"/proc/self/fd/{api.number}")
        connection.sendall(REQUEST)
        while part := connection.recv(MOST_BYTES):
            received += part
            with contextlib.suppress(ValueError):  # there is more to come
                path: str = json.loads(received.partition(b"\r\n\r\n")[2])["vsock"]["uds_path"]
                return path
            left = deadline - time.monotonic()
            if left <= 0 or len(received) > MOST_BYTES:
                break
            connection.settimeout(left)
    raise ValueError("the monitor does not say what is configured")
