# Derived from `generated_vmm/facade/_async/sender.py` by `make codegen`. Do not edit.
"""Sending operations: the base of the client and of its resources."""

from __future__ import annotations

from generated_vmm.operation import Answer, Operation
from generated_vmm.transport import CallFailed, CallSettings, Channel


class Sender:
    """Sends operations over one channel, with the settings of one client."""

    def __init__(self, settings: CallSettings, channel: Channel) -> None:
        self.settings = settings
        self.channel = channel

    def send(self, operation: Operation[Answer]) -> Answer:
        """Sends the operation, and returns the value in the response; raises `VmmError`."""
        self.settings.require_small(operation)
        try:
            answer = self.channel.exchange(operation, self.settings.timeout)
        except CallFailed as failed:
            raise self.settings.error_of(operation, failed) from failed.__cause__
        return self.settings.value_of(operation, answer)

    def close(self) -> None:
        """Closes the connection; raises `VmmError` if the caller's transport fails to close."""
        try:
            self.channel.close()
        except CallFailed as failed:
            raise self.settings.error_at_close(failed) from failed.__cause__


class Resource:
    """A part of the microVM, as a member of a client."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._sender.settings.socket_path}>"

    def _send(self, operation: Operation[Answer]) -> Answer:
        return self._sender.send(operation)


class DeviceResource(Resource):
    """A device of which a microVM may have several."""

    def __init__(self, sender: Sender, id: str) -> None:
        super().__init__(sender)
        self._id = id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._id!r} of {self._sender.settings.socket_path}>"
