"""A unix-socket connection on which every step has a deadline."""

from __future__ import annotations

import math
import select
import socket
import struct
import time

import httpx

from generated_vmm.transport.wire import RECEIVE_BYTES

NO_LIMIT = struct.pack("@ll", 0, 0)
NEAR_ENOUGH = 0.001  # seconds between the kernel's limit and the deadline that do not matter


def is_quiet(kept: socket.socket) -> bool:
    """Whether a kept connection is still open, with nothing unread on it."""
    poll = select.poll()
    poll.register(kept, select.POLLIN)
    return not poll.poll(0)


class Connection:
    """One blocking connection; deadlines are values of `time.monotonic()`.

    The kernel keeps the time (SO_RCVTIMEO, SO_SNDTIMEO), so that a step is one system call.
    """

    __slots__ = ("_limit", "_socket")

    def __init__(self, path: str, deadline: float) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._limit = math.inf
        try:
            self._socket.settimeout(None)
            self._allow_until(deadline)
            self._socket.connect(path)
        except (BlockingIOError, TimeoutError) as error:
            self._socket.close()
            raise httpx.ConnectTimeout("nobody accepted the connection") from error
        except (OSError, ValueError) as error:
            self._socket.close()
            raise httpx.ConnectError(str(error)) from error

    def is_quiet(self) -> bool:
        """Whether the peer has neither closed the connection nor sent anything unasked."""
        return is_quiet(self._socket)

    def send(self, content: bytes, deadline: float) -> None:
        """Sends all of it, or what the peer takes: it may answer, hang up and not read on."""
        rest = memoryview(content)
        try:
            while rest:
                self._allow_until(deadline)
                rest = rest[self._socket.send(rest) :]
        except (BlockingIOError, TimeoutError) as error:
            raise httpx.WriteTimeout("the monitor did not take the whole request") from error
        except ConnectionError:
            pass  # whether an answer was sent before tells what became of the request
        except OSError as error:
            raise httpx.WriteError(str(error)) from error

    def receive(self, deadline: float) -> bytes:
        """What came next; empty at the end of the stream."""
        try:
            self._allow_until(deadline)
            return self._socket.recv(RECEIVE_BYTES)
        except (BlockingIOError, TimeoutError) as error:
            raise httpx.ReadTimeout("the answer did not come") from error
        except OSError as error:
            raise httpx.ReadError(str(error)) from error

    def close(self) -> None:
        """Ends the connection."""
        self._socket.close()

    def _allow_until(self, deadline: float) -> None:
        """Lets the next step wait until the deadline; TimeoutError when that has passed."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        if left == self._limit or abs(left - self._limit) < NEAR_ENOUGH:
            return
        timeval = (
            NO_LIMIT
            if left == math.inf
            else struct.pack("@ll", int(left), max(1, int(left % 1 * 1e6)))
        )
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeval)
        self._limit = left
