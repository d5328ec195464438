"""A call ends within its timeout, whatever the server or other calls do."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from generated_vmm.concurrency._sync import writable
from generated_vmm.errors import VmmTimeoutError
from generated_vmm.transport import UnixChannel
from tests.vmm.scripted import OK, Play, Wire
from tests.vmm.transport.conftest import Call, Serve, fails, request

TIMEOUT = 0.2


@contextmanager
def ends_in_time() -> Iterator[None]:
    started = time.monotonic()
    yield
    assert TIMEOUT * 0.9 <= time.monotonic() - started < TIMEOUT + 2


def silent(wire: Wire) -> None:
    while wire.request():
        pass


def dripping(wire: Wire) -> None:
    wire.request()
    wire.send(b"HTTP/1.1 200 \r\nContent-Length: 1000\r\n\r\n")
    while True:
        wire.send(b" ")
        time.sleep(TIMEOUT / 10)


def dripping_interim_answers(wire: Wire) -> None:
    wire.request()
    while True:
        wire.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        time.sleep(TIMEOUT / 10)


@pytest.mark.parametrize("play", [silent, dripping, dripping_interim_answers])
def test_a_slow_answer_times_out(call_each: Call, serve: Serve, play: Play) -> None:
    server = serve(play)
    with ends_in_time(), fails(VmmTimeoutError, sent=True):
        call_each("PUT", b"{}", timeout=TIMEOUT)
    assert len(server.requests) == 1


def test_a_late_answer_never_answers_the_next_call(call_each: Call, serve: Serve) -> None:
    def play(wire: Wire) -> None:
        wire.request()
        if len(server.connections) == 1:
            time.sleep(TIMEOUT * 1.5)
            wire.send(b"HTTP/1.1 204 \r\n\r\n")
        else:
            wire.send(OK)

    server = serve(play)
    with fails(VmmTimeoutError, sent=True):
        call_each(timeout=TIMEOUT)
    assert call_each().status_code == 200


def test_a_server_that_does_not_read_times_out(call_each: Call, serve: Serve) -> None:
    serve(lambda wire: time.sleep(TIMEOUT * 2))
    with ends_in_time(), fails(VmmTimeoutError, sent=True):
        call_each("PUT", bytes(1_000_000), timeout=TIMEOUT)


def test_who_waits_for_room_is_woken_by_room_alone(
    serve: Serve, socket_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the sync client: an answer that came before is read after the request was sent."""
    waits, finish = [], threading.Event()

    def noted(connection: socket.socket, deadline: float) -> bool:
        waits.append(deadline)
        return writable(connection, deadline)

    def unread(wire: Wire) -> None:
        wire.send(OK)
        finish.wait(5)

    serve(unread)
    monkeypatch.setattr("generated_vmm.transport._sync.unix.writable", noted)
    with closing(UnixChannel(str(socket_path))) as channel, fails(VmmTimeoutError, sent=True):
        channel.exchange(request("PUT", bytes(4_000_000)), TIMEOUT)
    finish.set()
    assert len(waits) < 10


def test_no_timeout_waits(call_each: Call, serve: Serve) -> None:
    def play(wire: Wire) -> None:
        while wire.request():
            time.sleep(TIMEOUT)
            wire.send(OK)

    serve(play)
    assert call_each(timeout=None).content == b"{}"
    assert call_each(timeout=TIMEOUT * 5).content == b"{}"
    assert call_each(timeout=None).content == b"{}"
