"""Misbehaviour on demand: slow, cut, wrong or missing answers, for testing what a client does."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from generated_vmm.testing.bodies.json_text import json_bytes
from generated_vmm.testing.wire.http_layer import Answer

GARBAGE: Final = b"\x00\xff this is no HTTP \r\n\r\n"


@dataclass(frozen=True)
class Delivery:
    """How one answer is handed over: after `delay` seconds, these bytes, then close or go on."""

    content: bytes
    delay: float = 0.0
    close: bool = False


@dataclass(frozen=True)
class Disturbance:
    """What is to happen to one answer."""

    delay: float = 0.0
    content: bytes | None = None
    keep_bytes: int | None = None
    close: bool = False

    def deliver(self, answer: bytes) -> Delivery:
        """The disturbed delivery of an answer."""
        content = (answer if self.content is None else self.content)[: self.keep_bytes]
        return Delivery(content, self.delay, self.close)


class Faults:
    """What goes wrong next. Each call disturbs one answer; several calls queue up.

    Safe to call from any thread while the monitor runs.
    """

    def __init__(self) -> None:
        self._queue: deque[Disturbance] = deque()
        self._refusals: deque[Answer] = deque()
        self._refused_connections: deque[None] = deque()

    def delay_next(self, seconds: float) -> None:
        """Answer the next request late; as with the real monitor, every other client waits too."""
        self._queue.append(Disturbance(delay=seconds))

    def cut_next(self, *, after: int = 20) -> None:
        """Send only the first `after` bytes of the next answer, then close the connection."""
        self._queue.append(Disturbance(keep_bytes=after, close=True))

    def garbage_next(self, content: bytes = GARBAGE) -> None:
        """Send these bytes instead of the next answer; the request is still carried out."""
        self._queue.append(Disturbance(content=content))

    def drop_next(self) -> None:
        """Carry the next request out, then close the connection without an answer."""
        self._queue.append(Disturbance(content=b"", close=True))

    def refuse_next(self, fault_message: str, *, status: int = 400) -> None:
        """Answer the next request with this refusal and leave the machine as it is."""
        body = json_bytes({"fault_message": fault_message})
        self._refusals.append(Answer(status, body))

    def close_next_connection(self) -> None:
        """Close the next connection as soon as it is accepted."""
        self._refused_connections.append(None)

    def clear(self) -> None:
        """Behave from now on."""
        self._queue.clear()
        self._refusals.clear()
        self._refused_connections.clear()

    def take(self, answer: bytes) -> Delivery:
        """The delivery of this answer, disturbed if that was asked for."""
        disturbance = self._queue.popleft() if self._queue else Disturbance()
        return disturbance.deliver(answer)

    def take_refusal(self) -> Answer | None:
        """The refusal the request just received is to get; None when it is to be carried out."""
        return self._refusals.popleft() if self._refusals else None

    def take_refused_connection(self) -> bool:
        """Whether the connection just accepted is to be closed."""
        if not self._refused_connections:
            return False
        self._refused_connections.popleft()
        return True
