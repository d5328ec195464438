"""The host's side of a vsock connection: the CONNECT / OK handshake on the device's unix socket.

Source: docs/vsock.md of the monitor. The monitor closes the connection when no process in the
guest listens on the port, so a refused handshake is tried again until the time is up.
"""

from __future__ import annotations

import re
import socket
import time
from typing import TypeAlias

from generated_vmm.errors import VmmConnectionError, VmmProtocolError, VmmTimeoutError
from generated_vmm.transport.connection import fault_of_path
from generated_vmm.transport.wire import require_seconds

VsockConnection: TypeAlias = socket.socket

LONGEST_WAIT_FOR_OK = 1.0  # seconds: a guest that is still booting may never answer one attempt
PAUSE = 0.05  # seconds between attempts
LONGEST_LINE = 32
HIGHEST_PORT = 2**32 - 1
ACCEPTED = re.compile(rb"OK [0-9]{1,10}\n")


class Attempts:
    """How often and how long to try; the handshake's own rules, for sync and async."""

    def __init__(self, uds_path: str, port: int, seconds: float) -> None:
        if not 0 <= port <= HIGHEST_PORT:
            raise ValueError(f"port is {port}; it must be from 0 to {HIGHEST_PORT}")
        require_seconds(seconds)
        self.request = b"CONNECT %d\n" % port
        self._what = f"vsock port {port} on {uds_path}"
        self._require_path(uds_path)
        self._seconds = seconds
        self._deadline = self._until = time.monotonic() + seconds

    def _require_path(self, uds_path: str) -> None:
        """A permanent VmmConnectionError for a path that no socket can have."""
        if fault := fault_of_path(uds_path):
            error = VmmConnectionError(f"{self._what}: no connection: {fault}; nothing was sent")
            error.permanent = True
            raise error

    def begin(self) -> None:
        """Starts the clock of one attempt."""
        self._until = min(self._deadline, time.monotonic() + LONGEST_WAIT_FOR_OK)

    def left(self) -> float:
        """The seconds left for this attempt, never none: that would mean no limit."""
        return max(0.001, self._until - time.monotonic())

    def require_time_left(self, error: OSError) -> None:
        """VmmTimeoutError, for the reason given, when there is no time for another attempt."""
        if time.monotonic() + PAUSE >= self._deadline:
            reason = "no answer to CONNECT" if isinstance(error, TimeoutError) else str(error)
            raise VmmTimeoutError(
                f"{self._what}: no connection within {self._seconds} s, at last: {reason}"
            ) from error

    def require_ok(self, line: bytes) -> None:
        """Reads the answer to CONNECT: nothing is a refusal, anything but OK is no monitor."""
        if not line:
            raise ConnectionRefusedError("nothing in the guest listens on the port")
        if ACCEPTED.fullmatch(line) is None:
            raise VmmProtocolError(f"{self._what}: the answer to CONNECT is {line!r}")


def connect_vsock(uds_path: str, port: int, seconds: float) -> VsockConnection:
    """A blocking socket to the port in the guest; `VmmTimeoutError` when there is none in time."""
    attempts = Attempts(uds_path, port, seconds)
    while True:
        attempts.begin()
        try:
            return _open_socket(uds_path, attempts)
        except OSError as error:
            attempts.require_time_left(error)
        time.sleep(PAUSE)


def _open_socket(uds_path: str, attempts: Attempts) -> VsockConnection:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(attempts.left())
        connection.connect(uds_path)
        connection.sendall(attempts.request)
        attempts.require_ok(_read_line(connection, attempts))
        connection.settimeout(None)
    except BaseException:
        connection.close()
        raise
    return connection


def _read_line(connection: socket.socket, attempts: Attempts) -> bytes:
    """One line, and no byte behind it: those are the guest's first bytes for the caller."""
    line = b""
    while len(line) < LONGEST_LINE and not line.endswith(b"\n"):
        connection.settimeout(attempts.left())
        if not (received := connection.recv(1)):
            break
        line += received
    return line
