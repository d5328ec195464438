"""Messages between callers, nurseries, keepers and visitors, and the sockets of monitors.

A message is words, with descriptors beside them. The first word says what it is. The words are
separated by NUL, which is in no path.
"""

from __future__ import annotations

import array
import contextlib
import errno
import json
import os
import socket
import stat
import struct
import time
from collections.abc import Callable, Iterable, Iterator

from generated_vmm.process.keeper import kernel
from generated_vmm.process.keeper.kernel import FOLDER, Any, Descriptor, Refused

KEEPER = "keeper.socket"  # in the folder of a monitor
MOST_BYTES = 65_536
AS_BYTES = ("utf-8", "surrogateescape")  # paths too, whatever they contain
ANSWER_SECONDS = 1.0
MOST_DESCRIPTORS = 8
INT = array.array("i").itemsize
ROOM = socket.CMSG_SPACE(MOST_DESCRIPTORS * INT)
# Plain numbers: a keeper has more private memory with what `enum` does for its members.
CLOSED, CUT_OFF = int(socket.MSG_CMSG_CLOEXEC), int(socket.MSG_CTRUNC)
read_json = json.JSONDecoder().raw_decode  # `json.loads` does more, and touches more memory
REQUEST = b"GET /vm/config HTTP/1.1\r\nHost: localhost\r\n\r\n"
PEER = struct.Struct("3i")  # struct ucred (unix(7)): pid, uid, gid

Received = tuple[list[str], list[Descriptor]]


def pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a connection for messages. Raises OSError."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(connection: socket.socket, *words: object, given: Iterable[int] = ()) -> bool:
    """Sends words and descriptors; returns whether the other side is there."""
    content = "\0".join(map(str, words))
    with contextlib.suppress(OSError):
        socket.send_fds(connection, [content.encode(*AS_BYTES)], [*given])
        return True
    return False


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
    if flags & CUT_OFF:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))  # no numbers for what was given
    return (content.decode(*AS_BYTES).split("\0"), given) if content else None


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
    return connection.recvmsg(MOST_BYTES, ROOM, CLOSED)[:3]


def in_memory(content: object) -> Descriptor:
    """A file in memory with content that may be longer than a message: environments are."""
    file = Descriptor(os.memfd_create, "order")
    with open(f"/proc/self/fd/{file.number}", "w") as writing:
        json.dump(content, writing, default=vars)
    return file


def content_of(file: Descriptor) -> Any:
    """The content of a file in memory, which is closed then. Another may have read it before."""
    with file:
        content = os.pread(file.number, os.fstat(file.number).st_size, 0)
        return read_json(content.decode())[0]


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """The process and the user at the other end: who connected, or who listens (unix(7))."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size)
    pid, uid, _ = PEER.unpack(found)
    return pid, uid


def ask(folder: int, path: str, **how: Any) -> list[str] | None:
    """What a folder's keeper says: "owned" or "detached", its monitor's number and id.

    See `visit`.
    """
    found = visit(folder, path, "ask", **how)
    if found is None:
        return None
    words, connection = found
    connection.close()
    return words


def visit(
    folder: int,
    path: str,
    word: str,
    *,
    seconds: float = kernel.LONGEST_END,
    pause: Callable[[float], object] = time.sleep,
) -> tuple[list[str], socket.socket] | None:
    """The answer of a folder's keeper, and the connection to it.

    None if the folder has no keeper, and is locked by this process now. Waits for a keeper that has
    just begun, or is about to end. Raises `Refused` if the folder is locked all the time, and
    nobody answers.
    """
    deadline = time.monotonic() + seconds
    while not kernel.lock(folder):
        with contextlib.suppress(OSError):
            if (answer := _answer(folder, word)) is not None:
                return answer
        if time.monotonic() > deadline:
            who = kernel.in_words(kernel.holders(folder))
            raise Refused(f"{path} is in use by {who}, which does not answer")
        pause(kernel.PAUSE)
    return None


def _answer(folder: int, word: str) -> tuple[list[str], socket.socket] | None:
    """None if the keeper is about to end. Raises OSError."""
    with contextlib.ExitStack() as stack:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        stack.enter_context(connection).settimeout(ANSWER_SECONDS)
        connection.connect(f"/proc/self/fd/{folder}/{KEEPER}")
        if peer_of(connection)[1] != os.geteuid():
            return None
        send(connection, word)
        if (received := receive(connection)) is None:
            return None
        stack.pop_all()
        return received[0], connection


# The unix sockets of a monitor, and who listens on one


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
