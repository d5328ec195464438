"""The unix sockets of a monitor: who listens on one, and on which its processes listen."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import struct
from collections.abc import Iterator

from generated_vmm.process.keeper import kernel
from generated_vmm.process.keeper.kernel import FOLDER, Descriptor, Refused
from generated_vmm.process.keeper.messages import peer_of

SOCK_DIAG, BY_FAMILY, IS_REQUEST, SHOW_NAME, ANY = 4, 20, 1, 1, 0xFFFFFFFF
REQUEST = struct.Struct("=IHHIIBBHIIIII")  # struct nlmsghdr, struct unix_diag_req
STATE, NAME, LISTENS = 18, 36, 10  # in struct unix_diag_msg; its first attribute; TCP_LISTEN
MOST_BYTES = 4096


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


def bound_paths() -> set[str]:
    """The paths on which our descendants listen, as they have bound them.

    The kernel is asked about each of their sockets, because its list of all sockets is long where
    many monitors run. Source: sock_diag(7), linux/unix_diag.h.
    """
    found = set()
    for pid in kernel.descendants(os.getpid()):
        # it may have ended, or be in a namespace of another user
        with contextlib.suppress(OSError), _open_diagnosis(pid) as diagnosis:
            for inode in _sockets_of(pid):
                if name := _name_of_listener(inode, diagnosis):
                    found.add(os.fsdecode(name))
    return found


def _open_diagnosis(pid: int) -> socket.socket:
    """Answers for the network namespace in which it was made: that of a process. Raises OSError."""
    with (
        Descriptor(os.open, f"/proc/{pid}/ns/net", os.O_RDONLY) as namespace,
        kernel.joined(namespace.number),
    ):
        return socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, SOCK_DIAG)


def _sockets_of(pid: int) -> Iterator[int]:
    """The inodes of a process's sockets. Its other files may be on a disk that hangs."""
    for number in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # it is closed
            kind, _, inode = os.readlink(f"/proc/{pid}/fd/{number}").partition(":")
            if kind == "socket":
                yield int(inode.strip("[]"))


def _name_of_listener(inode: int, diagnosis: socket.socket) -> bytes:
    """The path on which a unix socket listens; empty if it has none."""
    about = (socket.AF_UNIX, 0, 0, ANY, inode, SHOW_NAME, ANY, ANY)
    diagnosis.send(REQUEST.pack(REQUEST.size, BY_FAMILY, IS_REQUEST, 0, 0, *about))
    answer = diagnosis.recv(MOST_BYTES)
    if answer[4] != BY_FAMILY or answer[STATE] != LISTENS:
        return b""
    (length,) = struct.unpack_from("=H", answer, NAME - 4)
    return answer[NAME : NAME - 4 + length].partition(b"\0")[0]  # an abstract name begins with it
