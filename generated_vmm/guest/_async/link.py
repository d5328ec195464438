"""Connections to one agent, each for one request at a time."""

from __future__ import annotations

import math
import os
import time
from collections.abc import AsyncGenerator, Iterable
from inspect import getattr_static
from typing import Any, Protocol, TypeAlias

from generated_vmm.concurrency._async import Stream, sleep, socket_of, stream_of
from generated_vmm.errors import VmmConnectionError, VmmError
from generated_vmm.facade import AsyncVmmClient
from generated_vmm.guest.answers import broken, failures, no_connection, value_of
from generated_vmm.guest.errors import GuestAgentLost, GuestHeld
from generated_vmm.operation import Answer, Operation
from generated_vmm.transport import CallFailed
from generated_vmm.transport._async.unix import answered, open_until, receive, send
from generated_vmm.transport._async.vsock import async_connect_vsock
from generated_vmm.transport.calls import deadline_after, require_seconds
from generated_vmm.transport.connection import (
    Connection,
    connect_to,
    popped,
    start_over_in_children,
)
from generated_vmm.transport.http import AnswerParser, request_bytes

LARGEST_ANSWER = 1_048_576  # bytes; output comes in parts of a quarter of that
PART = 262_144  # bytes of a file that are sent or received at once
PAUSE = 0.05  # seconds before a request is repeated


class AsyncClientOwner(Protocol):
    """A machine with a client, such as `AsyncMonitor`."""

    @property
    def client(self) -> AsyncVmmClient:
        """The client."""


AsyncMachine: TypeAlias = str | os.PathLike[str] | AsyncVmmClient | AsyncClientOwner


class AsyncLink:
    """Sends operations to the agent, over as many connections as there are requests at once."""

    def __init__(self, machine: AsyncMachine, port: int | None, timeout: float) -> None:
        require_seconds(timeout)
        is_known = isinstance(machine, str | os.PathLike | AsyncVmmClient)
        if not is_known and getattr_static(machine, "client", None) is None:
            forms = "a monitor, a client, or the path of the vsock device's socket"
            raise TypeError(f"machine is a {type(machine).__name__}: pass {forms}")
        self.machine, self.port, self.timeout = machine, port, timeout
        self._idle: list[Connection] = []
        start_over_in_children(self)
        self.what = f"guest of {machine!s}"

    async def send(
        self,
        operation: Operation[Answer],
        wait: float = 0.0,
        *,
        name: str = "",
        deadline: float = math.inf,
    ) -> Answer:
        """The value in the response, which the agent may delay by `wait` seconds.

        A lost connection is replaced: every operation may arrive twice. What a guest that is held
        refuses is repeated. Raises `GuestError`, and the OSError that the agent reports, with
        `name` as its file.
        """
        deadline = min(deadline, deadline_after(self.timeout + wait))
        request = request_bytes(operation)
        while True:
            try:
                return await self._exchange(operation, request, (), deadline, name)
            except (GuestAgentLost, GuestHeld):
                if time.monotonic() + PAUSE >= deadline:
                    raise
            await sleep(PAUSE)

    async def upload(
        self, operation: Operation[None], size: int, parts: Iterable[bytes], name: str
    ) -> None:
        """Sends an operation with a body; it stops when the agent responds before the end."""
        head = request_bytes(operation)[:-2] + b"Content-Length: %d\r\n\r\n" % size
        await self._exchange(operation, head, parts, None, name)

    async def _exchange(
        self,
        operation: Operation[Answer],
        request: bytes,
        parts: Iterable[bytes],
        deadline: float | None,
        name: str,
    ) -> Answer:
        """The value in the response to one request; without a deadline, each part has its own."""
        connection = await (self._take(deadline) if deadline else self._open(self._soon()))
        keep = False
        try:
            for part in parts:
                with failures(self.what, operation):
                    await send(connection, request, self._soon())
                request = part
                if not connection.is_quiet():  # the agent refuses it, and responds early
                    request = b""
                    break
            with failures(self.what, operation):
                until = deadline or self._soon()
                answer = await answered(connection, request, until, LARGEST_ANSWER)
            keep = bool(deadline) and answer.reusable
            return value_of(self.what, operation, answer, name)
        finally:
            self._put_back(connection, keep=keep)

    async def download(
        self, operation: Operation[None], name: str
    ) -> AsyncGenerator[tuple[bytes, int | None], None]:
        """The body of the response in parts, with the size of the whole if it is known."""
        answer, is_whole = AnswerParser(LARGEST_ANSWER), False
        connection = await self._open(self._soon())
        try:
            with failures(self.what, operation):
                await send(connection, request_bytes(operation), self._soon())
            while not is_whole:
                with failures(self.what, operation):
                    is_whole = answer.feed(await receive(connection, self._soon(), PART))
                if answer.status_code == 200 and (part := answer.take()):
                    length = dict(answer.headers).get(b"content-length")
                    yield part, int(length) if length else None
            value_of(self.what, operation, answer, name)
        finally:
            connection.close()

    async def join(self, operation: Operation[None], name: str) -> Stream:
        """The connection itself, after a response that is a head alone."""
        deadline = self._soon()
        connection = await self._open(deadline)
        try:
            answer = AnswerParser(LARGEST_ANSWER)
            with failures(self.what, operation):
                await send(connection, request_bytes(operation), deadline)
                while not answer.status_code:  # not a byte more: those are the caller's
                    answer.feed(await receive(connection, deadline, 1))
                if answer.status_code == 200:
                    return await stream_of(connection.socket)
                while not answer.feed(await receive(connection, deadline)):
                    pass
            value_of(self.what, operation, answer, name)
            raise broken(self.what, operation, f"status {answer.status_code}")
        except BaseException:
            connection.close()
            raise

    def _soon(self) -> float:
        return deadline_after(self.timeout)

    async def _take(self, deadline: float) -> Connection:
        while (idle := popped(self._idle)) is not None:
            if idle.is_quiet():
                return idle
            idle.close()
        return await self._open(deadline)

    async def _open(self, deadline: float) -> Connection:
        """A new connection, for what is not repeated: an idle one may be lost unnoticed."""
        machine: Any = self.machine
        seconds = max(0.001, deadline - time.monotonic())
        try:
            if self.port is None:
                return await self._opened(os.fspath(machine), deadline)
            if isinstance(machine, str | os.PathLike):
                stream = await async_connect_vsock(_existing(machine), self.port, seconds)
            else:
                client: AsyncVmmClient = getattr(machine, "client", machine)
                stream = await client.connect_vsock(self.port, timeout=seconds)
        except VmmError as error:
            raise no_connection(self.what, error) from error
        return Connection(socket_of(stream))

    async def _opened(self, path: str, deadline: float) -> Connection:
        """A connection to the agent's own unix socket."""
        connection = Connection()
        try:
            await open_until(deadline, connection, lambda made: connect_to(path, made))
        except CallFailed as failed:
            connection.close()
            raise failed.kind(f"no connection to {path}: {failed.reason}") from failed
        return connection

    def _put_back(self, connection: Connection, *, keep: bool) -> None:
        if keep:
            self._idle.append(connection)
        else:
            connection.close()

    def start_over(self) -> None:
        """Closes this process's copies of connections that belong to its parent."""
        self.close()

    def close(self) -> None:
        """Closes the idle connections; a later request opens another one."""
        while (idle := popped(self._idle)) is not None:
            idle.close()


def _existing(path: str | os.PathLike[str]) -> str:
    """The path of a socket; a call does not wait for a machine. Raises `VmmConnectionError`."""
    if not os.path.exists(path):
        raise VmmConnectionError(f"there is no socket at {os.fspath(path)}")
    return os.fspath(path)
