"""Messages between callers, nurseries, keepers and visitors: words, with descriptors beside them.

The first word says what it is. The words of one message are separated by NUL, which is in no path.
"""

from __future__ import annotations

import array
import errno
import marshal
import os
import socket
import struct
from collections.abc import Iterable, Iterator

from generated_vmm.process.keeper.annotations import Any
from generated_vmm.process.keeper.kernel import Descriptor

MOST_BYTES = 65_536
MOST_DESCRIPTORS = 16
CUT = int(socket.MSG_CTRUNC)  # a flag of an enumeration is a page of code
INT = array.array("i").itemsize
PEER = struct.Struct("3i")  # struct ucred (unix(7)): pid, uid, gid

Received = tuple[list[str], list[Descriptor]]


def pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a connection for messages. Raises OSError."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(connection: socket.socket, *words: object, given: Iterable[int] = ()) -> bool:
    """Sends words and descriptors; returns whether the other side is there."""
    content = os.fsencode("\0".join(map(str, words)))
    try:
        socket.send_fds(connection, [content], [*given])
    except OSError:
        return False
    return True


def receive(connection: socket.socket) -> Received | None:
    """The words of the next message, and its descriptors; None once the other side is gone.

    Raises BlockingIOError if there is none yet, and OSError.
    """
    try:
        content, beside, flags = _received(connection)
    except ConnectionResetError:  # once, if the other side ended without reading all our words
        content, beside, flags = _received(connection)
    numbers = array.array("i")
    for level, kind, data in beside:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            numbers.frombytes(data[: len(data) - len(data) % INT])
    given = [Descriptor(int, each) for each in numbers]
    if flags & CUT:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))  # no numbers for what was given
    return (os.fsdecode(content).split("\0"), given) if content else None


def drain(connection: socket.socket) -> Iterator[Received | None]:
    """The messages that are there; at last None, if the other side or the connection is gone."""
    while True:
        try:
            received = receive(connection)
        except BlockingIOError:
            return
        except OSError:
            received = None
        yield received
        if received is None:
            return


def _received(connection: socket.socket) -> tuple[bytes, list[tuple[int, int, bytes]], int]:
    # not `recv_fds`, which ignores the flag: a program would inherit what came
    room, flag = socket.CMSG_SPACE(MOST_DESCRIPTORS * INT), socket.MSG_CMSG_CLOEXEC
    return connection.recvmsg(MOST_BYTES, room, flag)[:3]


def content_of(file: Descriptor) -> Any:
    """The content of a file in memory, which is closed then. Another may have read it before."""
    with file:
        content = os.pread(file.number, os.fstat(file.number).st_size, 0)
        return marshal.loads(content)  # noqa: S302  # of our own caller


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """The process and the user at the other end: who connected, or who listens (unix(7))."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size)
    pid, uid, _ = PEER.unpack(found)
    return pid, uid
