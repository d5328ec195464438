"""A call ends within its timeout, whatever the server, other calls or signals do."""

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from generated_vmm.concurrency._sync import writable
from generated_vmm.errors import VmmConnectionError, VmmTimeoutError
from generated_vmm.transport import UnixChannel
from generated_vmm.transport.http import AnswerParser
from tests.vmm.scripted import OK, Play, Wire, answer, full_queue
from tests.vmm.transport.conftest import Call, Serve, fails, request

TIMEOUT = 0.2
EVERY = 0.01  # seconds between signals, far less than the timeout
GIVEN_UP = 30.0  # seconds after which the signals end, so that a call without a limit ends as well


@contextmanager
def in_time() -> Iterator[None]:
    began = time.monotonic()
    yield
    assert TIMEOUT * 0.9 <= time.monotonic() - began < GIVEN_UP / 2


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


@pytest.mark.parametrize("play", [dripping, dripping_interim_answers])
def test_a_slow_answer_times_out(call_each: Call, serve: Serve, play: Play) -> None:
    server = serve(play)
    with in_time(), fails(VmmTimeoutError, sent=True):
        call_each("PUT", b"{}", timeout=TIMEOUT)
    assert len(server.requests) == 1


def test_a_late_answer_never_answers_the_next_call(call_each: Call, serve: Serve) -> None:
    is_late = threading.Event()

    def play(wire: Wire) -> None:
        wire.request()
        if len(server.connections) == 1:
            is_late.wait(GIVEN_UP)
            wire.send(b"HTTP/1.1 204 \r\n\r\n")
        else:
            wire.send(OK)

    server = serve(play)
    with fails(VmmTimeoutError, sent=True):
        call_each(timeout=TIMEOUT)
    is_late.set()
    server.settle()
    assert call_each().status_code == 200


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
    for timeout in (None, GIVEN_UP, None):
        assert call_each(timeout=timeout).content == b"{}"


# Signals that keep arriving neither lengthen a call nor break it


@contextmanager
def signals(handler: Callable[..., object] = lambda *_: None) -> Iterator[None]:
    """Real signals for the main thread, which is in the middle of its call, again and again."""
    done, main = threading.Event(), threading.main_thread().ident
    assert main is not None
    before = signal.signal(signal.SIGUSR1, handler)

    def keep_sending() -> None:
        until = time.monotonic() + GIVEN_UP
        while not done.wait(EVERY) and time.monotonic() < until:
            signal.pthread_kill(main, signal.SIGUSR1)

    sender = threading.Thread(target=keep_sending)
    sender.start()
    try:
        yield
    finally:
        done.set()
        sender.join()
        signal.signal(signal.SIGUSR1, before)


def test_an_answer_that_does_not_come_is_late_all_the_same(call_each: Call, serve: Serve) -> None:
    serve(silent)
    with signals(), in_time(), fails(VmmTimeoutError, sent=True):
        call_each(timeout=TIMEOUT)


def test_a_request_that_is_not_read_is_late_all_the_same(call_each: Call, serve: Serve) -> None:
    finish = threading.Event()

    def unread(wire: Wire) -> None:
        finish.wait(GIVEN_UP * 2)

    serve(unread)
    try:
        with signals(), in_time(), fails(VmmTimeoutError, sent=True):
            call_each("PUT", bytes(4_000_000), timeout=TIMEOUT)
    finally:
        finish.set()


def test_a_connection_that_nobody_accepts_is_late_all_the_same(
    call_each: Call, socket_path: Path
) -> None:
    late = fails(VmmTimeoutError, sent=False, match=r"^the connection was not accepted$")
    with full_queue(socket_path), signals(), in_time(), late:
        call_each(timeout=TIMEOUT)


def test_a_call_that_signals_interrupt_gets_its_answer(call_each: Call, serve: Serve) -> None:
    body = b"x" * 9_000

    def drip(wire: Wire) -> None:
        wire.request()
        whole = answer(200, body)
        for start in range(0, len(whole), 500):
            time.sleep(EVERY)
            wire.send(whole[start : start + 500])

    server = serve(drip)
    with signals():
        assert call_each("PUT", bytes(200_000), timeout=GIVEN_UP).content == body
    assert len(server.requests) == 1


@contextmanager
def one_signal(arrived: threading.Event, handler: Callable[..., object]) -> Iterator[None]:
    """One signal for the main thread, once a call of it has arrived."""
    before, main = signal.signal(signal.SIGUSR1, handler), threading.main_thread().ident
    assert main is not None

    def send_signal() -> None:
        arrived.wait(5)
        signal.pthread_kill(main, signal.SIGUSR1)

    sender = threading.Thread(target=send_signal)
    sender.start()
    try:
        yield
    finally:
        sender.join()
        signal.signal(signal.SIGUSR1, before)


class Stopped(Exception):
    """What a program's own handler raises, as Ctrl+C does."""


def stop(*_: object) -> None:
    raise Stopped


def test_a_handler_that_raises_ends_the_call_and_not_the_next(
    serve: Serve, socket_path: Path
) -> None:
    """Of the sync client: on asyncio such a handler ends the event loop's run, not a call."""
    arrived = threading.Event()

    def first_silent(wire: Wire) -> None:
        wire.request()
        arrived.set()
        if len(server.connections) == 1:
            wire.request()
        wire.send(OK)

    server = serve(first_silent)
    with closing(UnixChannel(str(socket_path))) as channel:
        with one_signal(arrived, stop), pytest.raises(Stopped):
            channel.exchange(request(), GIVEN_UP)
        assert channel.exchange(request(), 5).content == b"{}"
    assert (len(server.requests), len(server.connections)) == (2, 2)


def test_a_handler_may_close_the_client_in_the_middle_of_a_call(
    serve: Serve, socket_path: Path
) -> None:
    arrived, closed = threading.Event(), threading.Event()

    def play(wire: Wire) -> None:
        wire.request()
        arrived.set()
        closed.wait(5)
        wire.send(OK)

    def close(*_: object) -> None:
        channel.close()
        closed.set()

    serve(play)
    channel = UnixChannel(str(socket_path))
    with one_signal(arrived, close):
        assert channel.exchange(request(), GIVEN_UP).content == b"{}"
    with fails(VmmConnectionError, sent=False, match="closed"):
        channel.exchange(request(), 5)


@pytest.mark.parametrize("step", ["message_begin", "header", "headers_complete", "body"])
def test_what_a_handler_raises_while_a_response_is_read_is_raised(
    serve: Serve, socket_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Python calls a handler at the beginning of a function, also of one that httptools calls."""
    serve(lambda wire: wire.answer_all())
    monkeypatch.setattr(AnswerParser, f"on_{step}", stop)
    with closing(UnixChannel(str(socket_path))) as channel:
        with pytest.raises(Stopped):
            channel.exchange(request(), 5)
        monkeypatch.undo()
        assert channel.exchange(request(), 5).content == b"{}"
