"""When a connection is made, and why it is not; and that nothing is sent twice."""

import os
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from generated_vmm.errors import VmmConnectionError, VmmTimeoutError
from generated_vmm.operation import Operation
from generated_vmm.transport import AsyncUnixChannel, CallFailed, UnixChannel, connection
from tests.vmm.facade.conftest import result_of
from tests.vmm.scripted import ScriptedServer, Wire, answer
from tests.vmm.transport.conftest import Call, Serve, fails

VERSION = Operation("own", "GET", "/version", None, bytes)


def test_the_request_is_written_once_with_its_headers_and_body(
    call_each: Call, serve: Serve
) -> None:
    server = serve(Wire.answer_all)
    call_each("PUT", b'{"a":1}')
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert head.split(b"\r\n")[0] == b"PUT / HTTP/1.1"
    assert set(head.split(b"\r\n")[1:]) == {
        b"Host: localhost",
        b"Content-Length: 7",
        b"Content-Type: application/json",
    }
    assert body == b'{"a":1}'


@pytest.mark.parametrize("size", [0, 1_000_000])
def test_an_answer_given_before_the_request_was_read_is_the_answer(
    call_each: Call, serve: Serve, size: int
) -> None:
    """As the monitor treats an eleventh connection."""
    server = serve(lambda wire: wire.send(answer(503, b'{ "error": "Too many" }')))
    assert call_each("PUT", bytes(size)).status_code == 503
    assert call_each("PUT", bytes(size)).status_code == 503
    assert len(server.connections) == 2


def test_a_monitor_that_comes_back_is_found_again(call_each: Call, socket_path: Path) -> None:
    for _ in range(2):
        server = ScriptedServer(socket_path, Wire.answer_all)
        assert call_each().content == b"{}"
        server.stop()
        with fails(VmmConnectionError, sent=False):
            call_each()
        socket_path.unlink()


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (str, r"No such file .* SimulatedMonitor in its `with` block"),
        (Path.touch, "is a file, not a socket"),
        (Path.mkdir, "is a folder, not a socket"),
        (bind, "refused"),
    ],
)
def test_a_path_without_a_listener(
    call_each: Call, socket_path: Path, make: Callable[[Path], object], reason: str
) -> None:
    make(socket_path)
    with fails(VmmConnectionError, sent=False, match=reason):
        call_each()


def test_a_socket_without_a_file_is_reached(tmp_path: Path) -> None:
    name = f"\0{tmp_path}"
    with socket.socket(socket.AF_UNIX) as listener, closing(UnixChannel(name)) as channel:
        listener.bind(name)
        listener.listen()
        with fails(VmmTimeoutError, sent=True):
            channel.exchange(VERSION, 0.1)


def test_a_closed_channel_refuses_calls(serve: Serve, socket_path: Path) -> None:
    server = serve(Wire.answer_all)
    with closing(UnixChannel(str(socket_path))) as channel:
        channel.exchange(VERSION, 5)
    with fails(VmmConnectionError, sent=False, match="closed"):
        channel.exchange(VERSION, 5)
    assert len(server.requests) == 1


@pytest.mark.parametrize("kind", [UnixChannel, AsyncUnixChannel])
def test_a_channel_connects_its_socket_by_the_function_it_is_given(
    kind: Any, serve: Serve, socket_path: Path
) -> None:
    server, folder = serve(Wire.answer_all), os.open(socket_path.parent, os.O_PATH)

    def beneath(connection: socket.socket) -> None:
        connection.connect(f"/proc/self/fd/{folder}/{socket_path.name}")

    channel = kind("/nowhere", connect=beneath)
    for _ in range(2):
        assert result_of(lambda: channel.exchange(VERSION, 5)).content == b"{}"
    os.close(folder)
    assert len(server.connections) == 2
    result_of(channel.close)


@pytest.mark.parametrize("kind", [UnixChannel, AsyncUnixChannel])
def test_an_error_of_that_function_says_that_nothing_was_sent(kind: Any) -> None:
    refuse = Mock(side_effect=PermissionError(1, "the socket belongs to somebody else"))
    with pytest.raises(CallFailed, match="somebody else") as caught:
        result_of(lambda: kind("/nowhere", connect=refuse).exchange(VERSION, 5))
    assert (caught.value.kind, caught.value.sent) == (VmmConnectionError, False)


def test_a_thing_that_cannot_be_reset_after_a_fork_keeps_no_other_from_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Thing:
        def __init__(self, *errors: Exception) -> None:
            self.errors, self.was_reset = errors, False

        def start_over(self) -> None:
            for error in self.errors:
                raise error
            self.was_reset = True

    things = [Thing(OSError("first")), Thing(), Thing(OSError("second"))]
    monkeypatch.setattr(connection, "_inherited", things)
    with pytest.raises(OSError, match="first"):
        connection._start_over()
    assert things[1].was_reset


@pytest.mark.parametrize("kind", [UnixChannel, AsyncUnixChannel])
def test_a_path_with_a_nul_leads_to_no_other_socket(
    serve: Serve, socket_path: Path, kind: type[Any]
) -> None:
    """The kernel would connect to what is before the NUL."""
    serve(Wire.answer_all)
    with pytest.raises(ValueError, match="the path has a NUL character"):
        result_of(lambda: kind(f"{socket_path}\0/other").exchange(VERSION, 5))
