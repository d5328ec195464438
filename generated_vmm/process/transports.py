"""The ways of a monitor's client: they tell its end from a lost connection, and note its vsock."""

from __future__ import annotations

import httpx

from generated_vmm.process.process import Process, vsock_path_in
from generated_vmm.transport.httpx_transports import AsyncUnixTransport, UnixTransport

SETS_VSOCK = {"/vsock", "/snapshot/load"}
# A monitor closes its connections some time before it has ended: 35 ms for an empty 128 MiB guest.
LONGEST_END = 0.25  # seconds


class MonitorTransport(UnixTransport):
    """Raises `MonitorExited` for a call that failed because the monitor has ended."""

    def __init__(self, process: Process) -> None:
        super().__init__(process.place.socket_path)
        self._process = process

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """The answer to the request, its body read."""
        try:
            response = super().handle_request(request)
        except httpx.NetworkError as error:
            if self._process.child.wait(LONGEST_END):
                raise self._process.exited() from error
            raise
        _note(self._process, request, response)
        return response


class AsyncMonitorTransport(AsyncUnixTransport):
    """Raises `MonitorExited` for a call that failed because the monitor has ended."""

    def __init__(self, process: Process) -> None:
        super().__init__(process.place.socket_path)
        self._process = process

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The answer to the request, its body read."""
        try:
            response = await super().handle_async_request(request)
        except httpx.NetworkError as error:
            if await self._process.child.async_wait(LONGEST_END):
                raise self._process.exited() from error
            raise
        _note(self._process, request, response)
        return response


def _note(process: Process, request: httpx.Request, response: httpx.Response) -> None:
    if request.url.path in SETS_VSOCK and response.is_success:
        path = vsock_path_in(request.read())
        if path is not None:
            process.note_vsock(path)
