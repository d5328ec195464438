# Derived from `generated_vmm/transport/_async/channels.py` by `make codegen`. Do not edit.
"""What a client needs of the way to its monitor."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from generated_vmm.operation import Operation
from generated_vmm.transport.calls import HttpAnswer


@runtime_checkable
class Channel(Protocol):
    """One way to one monitor."""

    def exchange(self, operation: Operation[object], seconds: float | None) -> HttpAnswer:
        """The answer to the operation within so many seconds; raises `CallFailed`."""

    def close(self) -> None:
        """Ends the way; later calls are refused. Raises `CallFailed`."""


class HttpxTransport(Protocol):
    """A transport of httpx's or httpx2's."""

    def handle_request(self, request: Any, /) -> Any:
        """The response to a request of the same library."""

    def close(self) -> None:
        """Ends the transport."""
