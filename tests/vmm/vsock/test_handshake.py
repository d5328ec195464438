"""The CONNECT / OK handshake, tried again until something in the guest listens."""

import re
import threading
import time
from pathlib import Path

import pytest

from generated_vmm import VmmProtocolError, VmmTimeoutError
from tests.vmm.scripted import ScriptedServer, Wire, full_queue
from tests.vmm.transport.test_time import GIVEN_UP, TIMEOUT, signals
from tests.vmm.vsock.conftest import Connect, Serve

WRONG = {
    "no OK": b"NO 1\n",
    "no number": b"OK\n",
    "a letter": b"OK 12a\n",
    "a second word": b"OK 1 2\n",
    "an endless line": b"OK " + b"1" * 1_000,
    "HTTP": b"HTTP/1.1 400 \r\n\r\n",
    "a line without its end": b"OK 1073741824",
}


def echo(wire: Wire) -> None:
    while received := wire.receive():
        wire.send(received)


def silent(wire: Wire) -> None:
    while wire.receive():
        pass


def closed(wire: Wire) -> None:
    wire.receive()


def guest(wire: Wire, accepted: bytes = b"OK 1073741824\n") -> None:
    """A port that listens: the handshake, a greeting at once, then an echo."""
    assert wire.receive() == b"CONNECT 52\n"
    wire.send(accepted + b"hello")
    echo(wire)


@pytest.mark.parametrize("accepted", [b"OK 1073741824\n", b"OK 123456789\n"])
def test_the_guest_is_reached_and_its_first_bytes_are_kept(
    connect_each: Connect, serve: Serve, accepted: bytes
) -> None:
    serve(lambda wire: guest(wire, accepted))
    assert connect_each(52, 5)(b"ping", 9) == b"helloping"


def test_a_refused_handshake_is_tried_again(connect_each: Connect, serve: Serve) -> None:
    def play(wire: Wire) -> None:
        if len(server.connections) < 4:
            wire.receive()
        else:
            guest(wire)

    server = serve(play)
    assert connect_each(52, 5)(b"", 5) == b"hello"
    assert len(server.connections) == 4


def test_a_device_that_appears_later_is_waited_for(connect_each: Connect, uds_path: Path) -> None:
    started: list[ScriptedServer] = []

    def start() -> None:
        time.sleep(0.1)
        started.append(ScriptedServer(uds_path, guest))

    starter = threading.Thread(target=start)
    starter.start()
    assert connect_each(52, 5)(b"", 5) == b"hello"
    starter.join()
    started[0].stop()


def test_a_guest_that_never_listens_is_a_timeout(connect_each: Connect, serve: Serve) -> None:
    serve(closed)
    with pytest.raises(VmmTimeoutError, match=r"port 52 on .* within 0.2 s, at last: no"):
        connect_each(52, 0.2)


def test_a_device_that_is_not_there_is_a_timeout(connect_each: Connect) -> None:
    with pytest.raises(VmmTimeoutError, match=r"No such file.*, pass uds_path$"):
        connect_each(52, 0.1)


def test_a_dripping_answer_ends_with_the_time(connect_each: Connect, serve: Serve) -> None:
    def play(wire: Wire) -> None:
        for byte in b"OK " + b"1" * 200:
            time.sleep(0.05)
            wire.send(bytes([byte]))

    serve(play)
    with pytest.raises(VmmTimeoutError):
        connect_each(52, 0.2)


@pytest.mark.parametrize("line", WRONG.values(), ids=WRONG)
def test_any_other_answer_is_a_protocol_error(connect: Connect, serve: Serve, line: bytes) -> None:
    def play(wire: Wire) -> None:
        wire.receive()
        wire.send(line)

    server = serve(play)
    first = line.splitlines(keepends=True)[0][:32]  # as long as a line may be
    told = re.escape(f"the response to CONNECT is {first!r}")
    with pytest.raises(VmmProtocolError, match=f"{told}$"):
        connect(52, 5)
    assert len(server.connections) == 1


def test_a_device_whose_queue_is_full_is_a_timeout(connect_each: Connect, uds_path: Path) -> None:
    with full_queue(uds_path), pytest.raises(VmmTimeoutError, match=r"within 0\.2 s, at last: "):
        connect_each(52, 0.2)


@pytest.mark.parametrize("port", [0, 2**32 - 1])
def test_every_port_that_there_is_can_be_asked_for(
    connect: Connect, serve: Serve, port: int
) -> None:
    def play(wire: Wire) -> None:
        asked.append(wire.receive())
        wire.send(b"OK 1\n")

    asked: list[bytes] = []
    serve(play)
    connect(port, 5)
    assert asked == [b"CONNECT %d\n" % port]


@pytest.mark.parametrize(
    ("port", "seconds", "error", "named"),
    [
        (-1, 5, ValueError, "port"),
        (2**32, 5, ValueError, "port"),
        ("52", 5, ValueError, "port is '52'; it must be a number"),
        *((52, seconds, ValueError, "timeout") for seconds in (0, -1, float("nan"))),
    ],
)
def test_what_is_no_port_and_no_time_is_refused(
    connect: Connect, port: int, seconds: float, error: type[Exception], named: str
) -> None:
    with pytest.raises(error, match=named):
        connect(port, seconds)


def test_silence_ends_with_the_time_whatever_signals_arrive(
    connect_each: Connect, serve: Serve
) -> None:
    serve(silent)
    began = time.monotonic()
    told = pytest.raises(VmmTimeoutError, match=r"at last: no response to CONNECT\. This must be")
    with signals(), told:
        connect_each(52, TIMEOUT)
    assert time.monotonic() - began < GIVEN_UP / 2
