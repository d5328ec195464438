# Derived from `generated_vmm/transport/_async/channels.py` by `make codegen`. Do not edit.
"""The interfaces through which a client sends operations to its monitor."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from generated_vmm.operation import Operation
from generated_vmm.transport.calls import HttpAnswer


@runtime_checkable
class Channel(Protocol):
    """A channel to one monitor."""

    def exchange(self, operation: Operation[object], seconds: float | None) -> HttpAnswer:
        """The response to the operation within `timeout` seconds; raises `CallFailed`."""

    def close(self) -> None:
        """Closes the channel; later calls fail. Raises `CallFailed`."""


class HttpxTransport(Protocol):
    """A transport of httpx or httpx2."""

    def handle_request(self, request: Any, /) -> Any:
        """The response to a request of the same library."""

    def close(self) -> None:
        """Closes the transport."""
