"""What a keeper asks its monitor, as the API's client."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import time
from collections.abc import Callable

from generated_vmm.process.keeper.annotations import Any
from generated_vmm.process.keeper.kernel import FOLDER, Descriptor, is_descendant
from generated_vmm.process.keeper.messages import peer_of

MOST_BYTES = 1 << 20


class Api:
    """The API's socket of a monitor, by its folder and its path there.

    `wait` waits some seconds for a connection, and raises to end a call.
    """

    def __init__(
        self,
        folder: Descriptor,
        path: str,
        user: int,
        wait: Callable[[float, socket.socket], object],
    ) -> None:
        self.folder, self._path, self._user, self._wait = folder, path, user, wait
        self._socket: Descriptor | None = None

    def opened(self) -> Descriptor:
        """An O_PATH descriptor of the socket, once the monitor listens: it leads nowhere else.

        Raises OSError, PermissionError if another process listens there.
        """
        if self._socket is None:
            self._connect().close()
        return self._socket or self.opened()

    def _connect(self) -> socket.socket:
        """A connection to the monitor; the first one says who listens."""
        found = self._socket or open_beneath(self.folder.number, self._path)
        connection = socket.socket(socket.AF_UNIX)
        connection.setblocking(False)
        connection.connect(f"/proc/self/fd/{found.number}")
        pid, uid = peer_of(connection)
        if self._socket is None and (uid != self._user or not is_descendant(pid)):
            what = f"process {pid} of user {uid} listens there, and not the monitor"
            raise PermissionError(what)
        self._socket = found
        return connection

    def call(self, seconds: float, path: str, body: dict[str, str] | None = None) -> Any:
        """The JSON of a response with a status below 300. Raises OSError, TimeoutError."""
        content = b"" if body is None else json.dumps(body).encode()
        method = "PUT" if body else "GET"
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(content)}"
        deadline = time.monotonic() + seconds
        with self._connect() as connection:
            connection.sendall(head.encode() + b"\r\n\r\n" + content)
            answer = b""
            while (found := _content_of(answer)) is None:
                if (left := deadline - time.monotonic()) <= 0 or len(answer) > MOST_BYTES:
                    raise TimeoutError(f"no response to {method} {path} within {seconds} s")
                self._wait(left, connection)
                with contextlib.suppress(BlockingIOError):
                    received = connection.recv(65_536)
                    answer += received
                    if not received:
                        raise ConnectionError(f"the monitor closed {method} {path}")
        if not answer.split(b" ", 2)[1].startswith(b"2"):
            raise ConnectionError(f"the monitor refused {method} {path}")
        return json.loads(found) if found else None


def _content_of(answer: bytes) -> bytes | None:
    """The body of a response that is whole (RFC 9112 6.3)."""
    head, end, body = answer.partition(b"\r\n\r\n")
    if not end:
        return None
    for line in head.lower().split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name == b"content-length":
            return body[: int(value)] if len(body) >= int(value) else None
    return b""


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
