"""Sending operations: what the client and each of its resources are made on."""

from __future__ import annotations

import httpx

from generated_vmm.operation import Answer, Operation
from generated_vmm.transport import CallSettings, body_of


class Sender:
    """Sends operations through one transport, with the settings of one client."""

    def __init__(self, settings: CallSettings, transport: httpx.BaseTransport) -> None:
        self.settings = settings
        self.transport = transport

    def send(self, operation: Operation[Answer]) -> Answer:
        """The value of the answer; raises a `VmmError` for everything that can go wrong."""
        request = self.settings.request_for(operation)
        try:
            response = self.transport.handle_request(request)
            content = body_of(response)
        except httpx.TransportError as error:
            raise self.settings.failure(operation, error) from error
        return self.settings.value_of(operation, response, content)


class Resource:
    """A part of the microVM as a client shows it."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def _send(self, operation: Operation[Answer]) -> Answer:
        return self._sender.send(operation)
