# Derived from `generated_vmm/guest/_async/link.py` by `make codegen`. Do not edit.
"""Connections to one agent, each for one request at a time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias

from generated_vmm.concurrency._sync import Stream, sleep, socket_of, stream_of
from generated_vmm.errors import VmmError
from generated_vmm.guest.answers import broken, is_lost, no_answer_from, no_connection, value_of
from generated_vmm.operation import Answer, Operation
from generated_vmm.transport import CallFailed
from generated_vmm.transport._sync.unix import answered, open_until, receive, send
from generated_vmm.transport._sync.vsock import VsockConnection, connect_vsock
from generated_vmm.transport.calls import deadline_after, late, lost, require_seconds
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
HEAD_END = b"\r\n\r\n"
LONGEST_HEAD = 1024


class VsockClient(Protocol):
    """A client with connections to ports of its machine, such as `VmmClient`."""

    def connect_vsock(self, port: int, *, timeout: float = ...) -> VsockConnection:
        """A connection to a port in the guest; raises `VmmError`."""


class ClientOwner(Protocol):
    """A machine with a client, such as `Monitor`."""

    @property
    def client(self) -> VsockClient:
        """The client."""


Machine: TypeAlias = str | os.PathLike[str] | VsockClient | ClientOwner


class Link:
    """Sends operations to the agent, over as many connections as there are requests at once."""

    def __init__(self, machine: Machine, port: int | None, timeout: float) -> None:
        require_seconds(timeout)
        self._machine, self._port, self.timeout = machine, port, timeout
        self._idle: list[Connection] = []
        start_over_in_children(self)
        place = os.fspath(machine) if isinstance(machine, str | os.PathLike) else repr(machine)
        self.what = f"guest of {place}"

    def send(
        self,
        operation: Operation[Answer],
        *,
        wait: float = 0.0,
        repeat: bool = True,
        name: str = "",
    ) -> Answer:
        """The value in the response, which the agent may delay by `wait` seconds.

        With `repeat`, for an operation that may arrive twice, a lost connection is replaced. Raises
        `GuestError`, and the OSError that the agent reports, with `name` as its file.
        """
        deadline = deadline_after(self.timeout + wait)
        while True:
            connection = self._take(deadline)
            try:
                request = request_bytes(operation)
                answer = answered(connection, request, deadline, LARGEST_ANSWER)
            except CallFailed as failed:
                connection.close()
                if not (repeat and is_lost(failed)) or time.monotonic() + PAUSE >= deadline:
                    raise no_answer_from(self.what, operation, failed) from failed
                sleep(PAUSE)
                continue
            except BaseException:
                connection.close()
                raise
            self._put_back(connection, keep=answer.reusable)
            return value_of(self.what, operation, answer, name)

    def upload(
        self, operation: Operation[None], size: int | None, parts: Iterable[bytes], name: str
    ) -> None:
        """Sends an operation with a body; it stops when the agent responds before the end.

        `timeout` is for each part of the body.
        """
        header = b"Transfer-Encoding: chunked" if size is None else b"Content-Length: %d" % size
        connection = self._take(deadline_after(self.timeout))
        try:
            self._send(connection, request_bytes(operation)[:-2] + header + HEAD_END)
            for part in parts:
                if not connection.is_quiet():
                    break
                framed = b"%x\r\n%b\r\n" % (len(part), part) if size is None else part
                self._send(connection, framed)
            last = b"0\r\n\r\n" if size is None and connection.is_quiet() else b""
            answer = answered(connection, last, deadline_after(self.timeout), LARGEST_ANSWER)
        except CallFailed as failed:
            raise no_answer_from(self.what, operation, failed) from failed
        finally:
            connection.close()
        value_of(self.what, operation, answer, name)

    def download(
        self, operation: Operation[None], sink: Callable[[bytes, int | None], object], name: str
    ) -> None:
        """Passes the body of the response to `sink` in parts, with the size if it is known.

        `timeout` is for each part.
        """
        answer = AnswerParser(LARGEST_ANSWER)
        connection = self._take(deadline_after(self.timeout))
        try:
            self._send(connection, request_bytes(operation))
            is_whole = False
            while not is_whole:
                is_whole = answer.feed(self._receive(connection))
                if 200 <= answer.status_code < 300 and (part := answer.take()):
                    sink(part, _size_in(answer))
        except CallFailed as failed:
            raise no_answer_from(self.what, operation, failed) from failed
        finally:
            connection.close()
        value_of(self.what, operation, answer, name)

    def join(self, operation: Operation[None], name: str) -> Stream:
        """The connection itself, after a response that is a head alone."""
        connection = self._take(deadline_after(self.timeout))
        try:
            self._send(connection, request_bytes(operation))
            head, answer = b"", AnswerParser(LARGEST_ANSWER)
            while not head.endswith(HEAD_END):  # not a byte more: those are the caller's
                head += (byte := self._receive(connection, 1))
                if not byte or len(head) > LONGEST_HEAD:
                    raise broken(self.what, operation, "no end of its head")
            if head.startswith(b"HTTP/1.1 200 "):
                return stream_of(connection.socket)
            while not answer.feed(head):
                head = self._receive(connection)
            value_of(self.what, operation, answer, name)
            raise broken(self.what, operation, f"status {answer.status_code}")
        except CallFailed as failed:
            connection.close()
            raise no_answer_from(self.what, operation, failed) from failed
        except BaseException:
            connection.close()
            raise

    def _send(self, connection: Connection, content: bytes) -> None:
        try:
            send(connection, content, deadline_after(self.timeout))
        except TimeoutError:
            raise late("the agent takes no more", sent=True) from None
        except OSError as error:
            raise lost(error) from error

    def _receive(self, connection: Connection, most: int = PART) -> bytes:
        try:
            return receive(connection, deadline_after(self.timeout), most)
        except TimeoutError:
            raise late("no more of the response", sent=True) from None
        except OSError as error:
            raise lost(error) from error

    def _take(self, deadline: float) -> Connection:
        while (idle := popped(self._idle)) is not None:
            if idle.is_quiet():
                return idle
            idle.close()
        seconds = max(0.001, deadline - time.monotonic())
        try:
            if self._port is None:
                return self._opened(deadline)
            return Connection(socket_of(self._connected(self._port, seconds)))
        except VmmError as error:
            raise no_connection(self.what, error) from error

    def _connected(self, port: int, seconds: float) -> VsockConnection:
        machine: Any = self._machine
        if isinstance(machine, str | os.PathLike):
            return connect_vsock(os.fspath(machine), port, seconds)
        client: VsockClient = getattr(machine, "client", machine)
        return client.connect_vsock(port, timeout=seconds)

    def _opened(self, deadline: float) -> Connection:
        """A connection to the agent's own unix socket."""
        path, connection = os.fsdecode(str(self._machine)), Connection()
        try:
            open_until(deadline, connection, lambda made: connect_to(path, made))
        except CallFailed as failed:
            connection.close()
            raise failed.kind(f"no connection: {failed.reason}") from failed
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


def _size_in(answer: AnswerParser) -> int | None:
    length = dict(answer.headers).get(b"content-length", b"")
    return int(length) if length.isdigit() else None
