"""Messages between a keeper and those who ask it: JSON objects, with descriptors beside them."""

from __future__ import annotations

import array
import contextlib
import json
import os
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MOST_BYTES = 65_536
MOST_DESCRIPTORS = 8
INT = array.array("i").itemsize
PEER = struct.Struct("3i")  # struct ucred (unix(7)): pid, uid, gid


class TooFewDescriptors(OSError):
    """Descriptors were sent that this process has no numbers for."""


def send(connection: socket.socket, message: Mapping[str, Any], given: Sequence[int] = ()) -> bool:
    """Sends a message and descriptors; returns whether the other side is there."""
    with contextlib.suppress(OSError):
        socket.send_fds(connection, [json.dumps(message).encode()], given)
        return True
    return False


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next message with its descriptors; None once the other side is gone.

    Raises BlockingIOError if there is none yet, TimeoutError, `TooFewDescriptors`.
    """
    try:
        content, beside, flags = _received(connection)
    except ConnectionResetError:  # once, if the other side ended without reading all our words
        content, beside, flags = _received(connection)
    found = array.array("i")
    for level, kind, data in beside:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(data[: len(data) - len(data) % INT])
    given = found.tolist()
    if flags & socket.MSG_CTRUNC:
        for each in given:
            os.close(each)
        raise TooFewDescriptors("too many open files (ulimit -n)")
    return (json.loads(content), given) if content else None


def content_of(file: int) -> Any:
    """The content of a file in memory, which is closed. Another may have read it before."""
    try:
        return json.loads(os.pread(file, os.fstat(file).st_size, 0))
    finally:
        os.close(file)


def drain(connection: socket.socket) -> Iterator[tuple[dict[str, Any], list[int]] | None]:
    """The messages that are there; at last None, if the other side is gone."""
    with contextlib.suppress(BlockingIOError):
        while (received := receive(connection)) is not None:
            yield received
        yield None


def _received(connection: socket.socket) -> tuple[bytes, list[tuple[int, int, bytes]], int]:
    # not `recv_fds`, which ignores the flag: a program would inherit what came
    room, flag = socket.CMSG_SPACE(MOST_DESCRIPTORS * INT), socket.MSG_CMSG_CLOEXEC
    return connection.recvmsg(MOST_BYTES, room, flag)[:3]


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """The process and the user at the other end: who connected, or who listens (unix(7))."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size)
    pid, uid, _ = PEER.unpack(found)
    return pid, uid
