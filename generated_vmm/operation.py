"""The seam between the generated half and the written half: one call to the monitor, as a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeAlias, TypeVar

Answer = TypeVar("Answer", covariant=True)
Method: TypeAlias = Literal["GET", "PUT", "PATCH", "DELETE"]


@dataclass(frozen=True, slots=True)
class Operation(Generic[Answer]):
    """What to ask the monitor and how to read its answer; nothing is sent by making one.

    `id` is the operationId of the monitor's description, `path` is ready for the request line,
    `body` is the JSON to send (None: no body), `read` turns the body of a 2xx answer into a value.
    """

    id: str
    method: Method
    path: str
    body: bytes | None = field(repr=False)
    read: Callable[[bytes], Answer] = field(repr=False)

    def __str__(self) -> str:
        """The operation as log lines and error messages name it."""
        return f"{self.id} ({self.method} {self.path})"
