# Derived from `generated_vmm/guest/_async/link.py` by `make codegen`. Do not edit.
"""Requests to one agent, each over a connection of its own."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial
from itertools import chain
from typing import Protocol, TypeAlias

from generated_vmm.concurrency._sync import Stream, sleep, stream_of
from generated_vmm.errors import VmmConnectionError, VmmError
from generated_vmm.facade import VmmClient
from generated_vmm.guest.answers import failures, no_connection, value_of
from generated_vmm.guest.errors import GuestAgentLost, GuestError
from generated_vmm.operation import Answer, Operation
from generated_vmm.transport import CallFailed
from generated_vmm.transport._sync.unix import opened, receive, send
from generated_vmm.transport._sync.vsock import connect_vsock
from generated_vmm.transport.calls import deadline_after, require_seconds
from generated_vmm.transport.connection import connect_to, hang_up
from generated_vmm.transport.http import AnswerParser, request_bytes

LARGEST_ANSWER = 1_048_576  # bytes; output comes in parts of a quarter of that
PART = 262_144  # bytes of a file that are sent or received at once
PAUSE = 0.05  # seconds before a request is repeated


class ClientOwner(Protocol):
    """A machine with a client, such as `Monitor`."""

    @property
    def client(self) -> VmmClient:
        """The client."""


Machine: TypeAlias = str | os.PathLike[str] | VmmClient | ClientOwner


class Link:
    """Sends operations to the agent, any number of them side by side."""

    def __init__(self, machine: Machine, port: int | None, timeout: float) -> None:
        require_seconds(timeout)
        self.machine, self.port, self.timeout = machine, port, timeout
        self.what = f"guest of {machine!s}"

    def send(
        self,
        operation: Operation[Answer],
        wait: float = 0.0,
        *,
        name: str = "",
        until: float | None = None,
        again: type[GuestError] = GuestAgentLost,
    ) -> Answer:
        """The value in the response, which the agent may delay by `wait` seconds.

        A lost connection is replaced: every operation may arrive twice. By default the time is up
        when the response would be late. Raises `GuestError`, and the OSError that the agent
        reports, with `name` as its file.
        """
        until = deadline_after(self.timeout + wait) if until is None else until
        while True:
            try:
                deadline = min(until, deadline_after(self.timeout + wait))
                return self.move(operation, name, deadline=deadline)
            except again:
                if time.monotonic() + PAUSE >= until:
                    raise
            sleep(PAUSE)

    def move(
        self,
        operation: Operation[Answer],
        name: str,
        *,
        deadline: float | None = None,
        size: int | None = None,
        parts: Iterable[bytes] = (),
        sink: Callable[[bytes], object] | None = None,
    ) -> Answer:
        """Sends an operation once, with a body of `size` bytes, and gives the response to a sink.

        Without a deadline, each part has its own. It stops when the agent responds before the end
        of the body. The sink gets the parts of the response.
        """
        head = request_bytes(operation)
        if size is not None:
            head = head[:-2] + b"Content-Length: %d\r\n\r\n" % size
        connection = self._open(deadline or self._soon())
        try:
            for part in chain([head], parts):
                if not _is_quiet(connection):  # the agent refuses it, and responds early
                    break
                with failures(self.what, operation):
                    send(connection, part, deadline or self._soon())
            answer, is_whole = AnswerParser(LARGEST_ANSWER), False
            while not is_whole:
                with failures(self.what, operation):
                    received = receive(connection, deadline or self._soon(), PART)
                    is_whole = answer.feed(received)
                if sink and answer.status_code == 200 and (part := answer.take()):
                    sink(part)
            return value_of(self.what, operation, answer, name)
        finally:
            hang_up(connection)

    def join(self, operation: Operation[None], name: str) -> Stream:
        """The connection itself, after a response that is a head alone."""
        deadline, answer = self._soon(), AnswerParser(LARGEST_ANSWER)
        with closing(self._open(deadline)) as connection:
            with failures(self.what, operation):
                send(connection, request_bytes(operation), deadline)
                while not answer.feed(receive(connection, deadline, 1)):
                    pass  # later bytes are the caller's
            value_of(self.what, operation, answer, name)
            return stream_of(connection.dup())

    def _soon(self) -> float:
        return deadline_after(self.timeout)

    def _open(self, deadline: float) -> socket.socket:
        machine, seconds = self.machine, max(0.001, deadline - time.monotonic())
        try:
            if not isinstance(machine, str | os.PathLike):
                client = getattr(machine, "client", machine)
                if not isinstance(client, VmmClient):
                    kind, forms = type(machine).__name__, "or the path of the vsock device's socket"
                    raise TypeError(f"machine is a {kind}: pass a monitor, a client, {forms}")
                return client.open_vsock(self.port or 0, None, seconds)
            if self.port is None:
                return opened(partial(connect_to, os.fspath(machine)), deadline)
            _require_socket(machine)
            return connect_vsock(os.fspath(machine), self.port, seconds)
        except (CallFailed, VmmError) as error:
            raise no_connection(self.what, error) from error


def _is_quiet(connection: socket.socket) -> bool:
    """Whether the peer has neither closed the connection nor sent bytes."""
    arrivals = select.poll()
    arrivals.register(connection, select.POLLIN)
    return not arrivals.poll(0)


def _require_socket(path: str | os.PathLike[str]) -> None:
    """Raises `VmmConnectionError` without one: a call does not wait for a machine."""
    if not os.path.exists(path):
        raise VmmConnectionError(f"there is no socket at {os.fspath(path)}")
