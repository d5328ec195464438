"""Ten connections, one request at a time."""

from __future__ import annotations

import time
from contextlib import ExitStack

from generated_vmm.testing import SimulatedMonitor
from tests.vmm.simulator.caller import Caller, connect, read_answers

GET = b"GET /version HTTP/1.1\r\n\r\n"
FULL = (
    b"HTTP/1.1 503 \r\nServer: Firecracker API\r\nConnection: close\r\nContent-Length: 40\r\n\r\n"
    b'{ "error": "Too many open connections" }'
)


def test_the_eleventh_connection_is_told_so_and_dropped(monitor: SimulatedMonitor) -> None:
    with ExitStack() as stack:
        ten = [stack.enter_context(connect(monitor.socket_path)) for _ in range(10)]
        for connection in ten:
            connection.sendall(GET)
            assert b"200" in read_answers(connection, 1)
        eleventh = stack.enter_context(connect(monitor.socket_path))
        received = b""
        while more := eleventh.recv(1000):
            received += more
        assert received == FULL
        ten[3].sendall(GET)
        assert b"200" in read_answers(ten[3], 1)


def test_a_closed_connection_makes_room(monitor: SimulatedMonitor, call: Caller) -> None:
    for _ in range(25):
        assert call("GET", "/version").status == 200


def test_a_slow_answer_holds_up_everyone(monitor: SimulatedMonitor, call: Caller) -> None:
    monitor.faults.delay_next(0.2)
    with connect(monitor.socket_path) as connection:
        begun = time.monotonic()
        connection.sendall(GET)
        while not monitor.calls:
            time.sleep(0.001)
        assert call("GET", "/version").status == 200
        assert time.monotonic() - begun >= 0.2


def test_a_client_that_never_reads_holds_up_nobody(monitor: SimulatedMonitor, call: Caller) -> None:
    with connect(monitor.socket_path) as connection:
        connection.setblocking(False)
        try:
            while True:
                connection.send(GET * 40)
        except BlockingIOError:
            pass
        assert call("GET", "/version").status == 200


def test_a_client_that_leaves_in_the_middle_harms_nobody(
    monitor: SimulatedMonitor, call: Caller
) -> None:
    with connect(monitor.socket_path) as connection:
        connection.sendall(b"PUT /entropy HTTP/1.1\r\nContent-Le")
    assert call("GET", "/version").status == 200
