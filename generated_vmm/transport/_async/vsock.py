"""The host's side of a vsock connection: the CONNECT / OK handshake on the device's unix socket.

Source: docs/vsock.md of the monitor. The monitor closes the connection when no process in the
guest listens on the port, so a refused handshake is retried until the time limit.
"""

from __future__ import annotations

import re
import time
from functools import partial
from typing import TypeAlias

from generated_vmm.concurrency._async import Stream, sleep, stream_of
from generated_vmm.errors import VmmConnectionError, VmmProtocolError, VmmTimeoutError
from generated_vmm.misuse import require_kind
from generated_vmm.transport._async.unix import receive, send
from generated_vmm.transport.calls import CallFailed, deadline_after, require_seconds
from generated_vmm.transport.connection import FULL_QUEUE_PAUSE, Connection, connect_to

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
) -> AsyncVsockConnection:
    """A connection to the port in the guest; raises `VmmTimeoutError` if there is none in time.

    `name` is the path for errors, if the caller knows another one.

    Raises `VmmProtocolError` if the response is not that of a vsock device, a permanent
    `VmmConnectionError` for a path that no socket can have, and ValueError for an invalid port or
    timeout.
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
        except CallFailed as fault:
            refusal = VmmConnectionError(f"{what}: no connection: {fault}; nothing was sent")
            refusal.permanent = True
            raise refusal from None
        except OSError as error:
            if time.monotonic() + PAUSE >= deadline:
                last = NO_RESPONSE if isinstance(error, TimeoutError) else str(error)
                if isinstance(error, FileNotFoundError):
                    last += "; if the monitor has another root or folder, pass uds_path"
                message = f"{what}: no connection within {seconds:.3g} s, at last: {last}"
                raise VmmTimeoutError(message) from error
        await sleep(PAUSE)


async def _connected(uds_path: str, port: int, what: str, deadline: float) -> AsyncVsockConnection:
    """One attempt. Raises OSError if another may succeed, `CallFailed` for an impossible path."""
    until = min(deadline, deadline_after(LONGEST_ATTEMPT))
    connection = Connection()
    try:
        while not connection.open(partial(connect_to, uds_path)):
            if time.monotonic() >= until:
                raise TimeoutError
            await sleep(FULL_QUEUE_PAUSE)
        await send(connection, b"CONNECT %d\n" % port, until)
        try:
            line = await _line(connection, until)
        except TimeoutError:
            await _require_no_api(connection, what, min(deadline, deadline_after(PAUSE)))
            raise
        if not line:
            tcp = "Guest(...).connect(port) leads to a TCP port"
            raise ConnectionRefusedError(f"nothing in the guest listens on this vsock port; {tcp}")
        if ACCEPTED.fullmatch(line) is None:
            raise VmmProtocolError(f"{what}: the response to CONNECT is {line!r}")
        return await stream_of(connection.socket)
    except BaseException:
        connection.close()
        raise


async def _require_no_api(connection: Connection, what: str, until: float) -> None:
    """Raises if an API responds to the end of a request. Raises TimeoutError if nothing does."""
    await send(connection, b"\r\n\r\n", until)
    if (await _line(connection, until)).startswith(b"HTTP/"):
        raise VmmProtocolError(f"{what}: this is the socket of an API, not of a vsock device")


async def _line(connection: Connection, until: float) -> bytes:
    """One line, and no byte after it: those are the guest's first bytes for the caller."""
    line = b""
    while len(line) < LONGEST_LINE and not line.endswith(b"\n"):
        if not (received := await receive(connection, until, 1)):
            break
        line += received
    return line
