"""The host's side of a vsock connection: the CONNECT / OK handshake on the device's unix socket.

Source: docs/vsock.md of the monitor. The monitor closes the connection when no process in the
guest listens on the port, so a refused handshake is retried until the time limit.
"""

from __future__ import annotations

import re
import socket
import time
from functools import partial
from typing import TypeAlias

from generated_vmm.concurrency._async import Stream, sleep
from generated_vmm.errors import VmmProtocolError, VmmTimeoutError
from generated_vmm.misuse import require_kind
from generated_vmm.transport._async.unix import opened, receive, send
from generated_vmm.transport.calls import CallFailed, deadline_after, require_seconds
from generated_vmm.transport.connection import connect_to

AsyncVsockConnection: TypeAlias = Stream

LONGEST_ATTEMPT = 1.0  # seconds: a booting guest may never respond to an attempt
PAUSE = 0.05  # seconds between attempts
LONGEST_LINE = 32
HIGHEST_PORT = 2**32 - 1
NO_RESPONSE = (
    "no response to CONNECT. This must be the socket of the vsock device, not of the API, and the "
    "machine must run, not be paused, and its kernel be up"
)
ACCEPTED = re.compile(rb"OK [0-9]{1,10}\n")


async def async_connect_vsock(
    uds_path: str, port: int, seconds: float, *, name: str = ""
) -> socket.socket:
    """A connection to the port in the guest, which never blocks.

    `name` is the path for errors, if the caller knows another one.

    Raises `VmmTimeoutError` if there is no connection in time, `VmmProtocolError` if the response
    is not that of a vsock device, and ValueError for an invalid port, path or timeout.
    """
    require_kind("port", port, "a number", int)
    if not 0 <= port <= HIGHEST_PORT:
        raise ValueError(f"port is {port}; it must be from 0 to {HIGHEST_PORT}")
    require_seconds(seconds)
    what = f"vsock port {port} on {name or uds_path}"
    deadline = deadline_after(seconds)
    while True:
        try:
            return await _connected(uds_path, port, what, deadline)
        except (CallFailed, OSError) as error:
            cause = error.__cause__ or error
            if time.monotonic() + PAUSE >= deadline:
                last = NO_RESPONSE if isinstance(cause, TimeoutError) else str(error)
                if isinstance(cause, FileNotFoundError):
                    last += "; if the monitor has another root or folder, pass uds_path"
                message = f"{what}: no connection within {seconds:.3g} s, at last: {last}"
                raise VmmTimeoutError(message) from cause
        await sleep(PAUSE)


async def _connected(uds_path: str, port: int, what: str, deadline: float) -> socket.socket:
    """One attempt. Raises OSError and `CallFailed` if another may succeed."""
    until = min(deadline, deadline_after(LONGEST_ATTEMPT))
    connection = await opened(partial(connect_to, uds_path), until)
    try:
        await send(connection, b"CONNECT %d\n" % port, until)
        if not (line := await _line(connection, until)):
            tcp = "Guest(...).connect(port) leads to a TCP port"
            raise ConnectionRefusedError(f"nothing in the guest listens on this vsock port; {tcp}")
        if ACCEPTED.fullmatch(line) is None:
            raise VmmProtocolError(f"{what}: the response to CONNECT is {line!r}")
        return connection
    except BaseException:
        connection.close()
        raise


async def _line(connection: socket.socket, until: float) -> bytes:
    """One line, and no byte after it: those are the guest's first bytes for the caller."""
    line = b""
    while len(line) < LONGEST_LINE and not line.endswith(b"\n"):
        if not (received := await receive(connection, until, 1)):
            break
        line += received
    return line
