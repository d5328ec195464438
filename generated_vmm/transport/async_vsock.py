"""The vsock handshake on asyncio; see `vsock`."""

from __future__ import annotations

import asyncio
from typing import TypeAlias

from generated_vmm.transport.vsock import LONGEST_LINE, PAUSE, Attempts

AsyncVsockConnection: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def async_connect_vsock(uds_path: str, port: int, seconds: float) -> AsyncVsockConnection:
    """Streams to the port in the guest; `VmmTimeoutError` when there is none in time."""
    attempts = Attempts(uds_path, port, seconds)
    while True:
        attempts.begin()
        try:
            async with asyncio.timeout(attempts.left()):
                return await _open_streams(uds_path, attempts)
        except OSError as error:
            attempts.require_time_left(error)
        await asyncio.sleep(PAUSE)


async def _open_streams(uds_path: str, attempts: Attempts) -> AsyncVsockConnection:
    reader, writer = await asyncio.open_unix_connection(uds_path)
    try:
        writer.write(attempts.request)
        attempts.require_ok(await _read_line_async(reader))
    except BaseException:
        writer.close()
        raise
    return reader, writer


async def _read_line_async(reader: asyncio.StreamReader) -> bytes:
    line = b""
    while len(line) < LONGEST_LINE and not line.endswith(b"\n"):
        if not (received := await reader.read(1)):
            break
        line += received
    return line
