"""One call to the monitor, as a value: generated functions return it, the facade sends it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeAlias, TypeVar
from urllib.parse import quote, urlencode

Answer = TypeVar("Answer", covariant=True)
Method: TypeAlias = Literal["GET", "PUT", "PATCH", "DELETE"]


def with_query(path: str, parameters: Mapping[str, str | int | None]) -> str:
    """The path, and a query of the parameters that are not None."""
    given = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in parameters.items()
        if value is not None
    }
    return f"{path}?{urlencode(given, quote_via=quote)}" if given else path


@dataclass(frozen=True, slots=True)
class Operation(Generic[Answer]):
    """A request to the monitor, and how to read its response; creating one sends nothing.

    `id` is the operationId of the monitor's description, `path` is ready for the request line,
    `body` is the JSON to send (None: no body), `read` turns the body of a 2xx answer into a value.
    """

    id: str
    method: Method
    path: str
    body: bytes | None = field(repr=False)
    read: Callable[[bytes], Answer] = field(repr=False)

    def __str__(self) -> str:
        """The operation's name in log lines and error messages."""
        return f"{self.id} ({self.method} {self.path})"
