"""Sending operations: what the client and each of its resources are made on.

Derived from `generated_vmm/facade/sender.py` by `make codegen`. Do not edit.
"""

from __future__ import annotations

import httpx

from generated_vmm.operation import Answer, Operation
from generated_vmm.transport import CallSettings, async_body_of


class AsyncSender:
    """Sends operations through one transport, with the settings of one client."""

    def __init__(self, settings: CallSettings, transport: httpx.AsyncBaseTransport) -> None:
        self.settings = settings
        self.transport = transport

    async def send(self, operation: Operation[Answer]) -> Answer:
        """The value of the answer; raises a `VmmError` for everything that can go wrong."""
        request = self.settings.request_for(operation)
        try:
            response = await self.transport.handle_async_request(request)
            content = await async_body_of(response)
        except httpx.TransportError as error:
            raise self.settings.failure(operation, error) from error
        return self.settings.value_of(operation, response, content)


class AsyncResource:
    """A part of the microVM as a client shows it."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def _send(self, operation: Operation[Answer]) -> Answer:
        return await self._sender.send(operation)
