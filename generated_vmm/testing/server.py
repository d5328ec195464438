"""The socket side of the monitor: one request at a time, ten connections, faults on demand."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from generated_vmm.misuse import require_kind, tell_delay
from generated_vmm.testing.http import (
    SERVER_FULL,
    Answer,
    HttpRefusal,
    Request,
    RequestParser,
)

MAX_CONNECTIONS: Final = 10
ACCEPT_AGAIN_SECONDS: Final = 0.05
LAST_ANSWER_SECONDS: Final = 1.0
GARBAGE: Final = b"\x00\xff this is no HTTP \r\n\r\n"


@dataclass(frozen=True)
class Disturbance:
    """Changes of one response: a delay, other bytes, only the first bytes, the connection's end.

    `name` is that of the method that a test has called.
    """

    name: str = ""
    delay: float = 0.0
    content: bytes | None = None
    keep_bytes: int | None = None
    close: bool = False


class Faults:
    """The next faults. Each call disturbs one response; several calls queue up.

    Safe to call from any thread while the monitor runs.
    """

    def __init__(self) -> None:
        self._answers: deque[Disturbance] = deque()
        self._refusals: deque[Answer] = deque()
        self._connections: deque[None] = deque()

    def delay_next(self, seconds: float) -> None:
        """Delay the next response; as with the real monitor, every other client waits too."""
        require_kind("seconds", seconds, "a number", int, float)
        tell_delay("seconds", seconds)
        self._answers.append(Disturbance("delay_next", seconds))

    def cut_next(self, *, after: int = 20) -> None:
        """Send only the first `after` bytes of the next response, then close the connection."""
        self._answers.append(Disturbance("cut_next", keep_bytes=after, close=True))

    def garbage_next(self, content: bytes = GARBAGE) -> None:
        """Send these bytes in place of the next response; the request is still carried out."""
        self._answers.append(Disturbance("garbage_next", content=content))

    def drop_next(self) -> None:
        """Carry out the next request, then close the connection without a response."""
        self._answers.append(Disturbance("drop_next", content=b"", close=True))

    def refuse_next(self, fault_message: str, *, status: int = 400) -> None:
        """Refuse the next request with this text, without changing the machine."""
        if not isinstance(fault_message, str):
            raise TypeError(f"fault_message is a text; the status is status={fault_message}")
        require_kind("status", status, "a number", int)
        self._refusals.append(Answer.refusing(fault_message, status))

    def close_next_connection(self) -> None:
        """Close the next connection as soon as it is accepted."""
        self._connections.append(None)

    @property
    def pending(self) -> list[str]:
        """The faults that have not happened."""
        disturbances = [f"{each.name}(...)" for each in self._answers]
        refusals = [f"refuse_next({each.fault!r})" for each in self._refusals]
        return [*disturbances, *refusals, *["close_next_connection()"] * len(self._connections)]

    def clear(self) -> None:
        """Remove all pending faults."""
        for queue in (self._answers, self._refusals, self._connections):
            queue.clear()

    def take(self) -> Disturbance:
        """The change of the response that is sent now."""
        return self._answers.popleft() if self._answers else Disturbance()

    def take_refusal(self) -> Answer | None:
        """The refusal for the request just received; None if it is to be carried out."""
        return self._refusals.popleft() if self._refusals else None

    def take_refused_connection(self) -> bool:
        """Whether to close the connection just accepted."""
        return bool(self._connections) and self._connections.popleft() is None


class ApiServer:
    """Serves a listening socket until stopped, or until a response ends the simulated process."""

    def __init__(
        self,
        listener: socket.socket,
        respond: Callable[[Request], Answer],
        faults: Faults,
        *,
        payload_limit: int,
    ) -> None:
        self._listener = listener
        self._listener_number = listener.fileno()
        self._respond = respond
        self._faults = faults
        self._payload_limit = payload_limit
        self._connections: set[asyncio.Task[None]] = set()
        self._stopping = threading.Event()
        self._wake: Callable[[], object] = lambda: None

    def stop(self) -> None:
        """Make `serve` return soon, also from within a delay. Safe from any thread and signal."""
        self._stopping.set()
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            self._wake()

    def serve(self) -> None:
        """Serve clients. All connections are closed on return; the socket's file remains."""
        try:
            asyncio.run(self._serve())
        finally:
            self.close()

    def close(self) -> None:
        """Close the listening socket; not while `serve` runs."""
        self._listener.close()

    async def _serve(self) -> None:
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        self._wake = lambda: loop.call_soon_threadsafe(stopped.set)
        self._listener.setblocking(False)
        self._listen()
        if not self._stopping.is_set():
            await stopped.wait()
        loop.remove_reader(self._listener_number)
        for task in self._connections:
            task.cancel()

    def _listen(self) -> None:
        if not self._stopping.is_set():
            asyncio.get_running_loop().add_reader(self._listener_number, self._accept)

    def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            peer, _ = self._listener.accept()
        except OSError:  # no descriptor is free; others may be closed meanwhile
            loop.remove_reader(self._listener_number)
            loop.call_later(ACCEPT_AGAIN_SECONDS, self._listen)
            return
        full = len(self._connections) >= MAX_CONNECTIONS
        if full or self._faults.take_refused_connection():
            with peer, contextlib.suppress(OSError):
                peer.send(SERVER_FULL if full else b"")
        else:
            peer.setblocking(False)
            self._welcome(peer)

    def _welcome(self, peer: socket.socket) -> None:
        def part(task: asyncio.Task[None]) -> None:
            self._connections.discard(task)
            peer.close()

        task = asyncio.get_running_loop().create_task(self._talk(peer))
        self._connections.add(task)
        task.add_done_callback(part)

    async def _talk(self, peer: socket.socket) -> None:
        """Read, respond, write; while there are bytes to write, nothing is read."""
        loop = asyncio.get_running_loop()
        parser = RequestParser(payload_limit=self._payload_limit)
        with contextlib.suppress(OSError):  # the client is gone, or does not read the last response
            closing = False
            while not closing and (chunk := await loop.sock_recv(peer, parser.room)):
                content, closing = self._answers_to(parser, chunk)
                closing |= self._stopping.is_set()
                await asyncio.wait_for(
                    loop.sock_sendall(peer, content),
                    LAST_ANSWER_SECONDS if self._stopping.is_set() else None,
                )
        if self._stopping.is_set():
            self._wake()

    def _answers_to(self, parser: RequestParser, chunk: bytes) -> tuple[bytes, bool]:
        """The bytes for the client, and whether the connection ends after them."""
        content: list[bytes] = []
        requests: list[Request] = []
        closing = False
        try:
            requests = parser.feed(chunk)
        except HttpRefusal as refusal:
            content.append(refusal.encode())
        for request in requests:
            if self._stopping.is_set():
                break
            answer = self._respond(request)
            disturbed = self._faults.take()
            self._stopping.wait(disturbed.delay)
            if not closing:
                whole = answer.encode() if disturbed.content is None else disturbed.content
                content.append(whole[: disturbed.keep_bytes])
            closing |= disturbed.close
            if answer.exit_code is not None:
                self._end()
        return b"".join(content), closing

    def _end(self) -> None:
        """End the process: a client that has this response can no longer connect."""
        asyncio.get_running_loop().remove_reader(self._listener_number)
        self._listener.close()
        self._stopping.set()
