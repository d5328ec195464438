"""Misbehaviour on demand, and what the monitor remembers of its requests."""

from __future__ import annotations

import time

import pytest

from generated_vmm import API_VERSION
from generated_vmm.testing import ReceivedCall, SimulatedMonitor
from tests.vmm.simulator.caller import Caller, connect, exchange, read_answers

GET = b"GET /version HTTP/1.1\r\n\r\n"


def receive_all(monitor: SimulatedMonitor, request: bytes = GET) -> bytes:
    received = b""
    with connect(monitor.socket_path) as connection:
        connection.sendall(request)
        while more := connection.recv(1000):
            received += more
    return received


def test_a_delayed_answer_comes_late_but_whole(monitor: SimulatedMonitor, call: Caller) -> None:
    monitor.faults.delay_next(0.1)
    begun = time.monotonic()
    assert call("GET", "/version").status == 200
    assert time.monotonic() - begun >= 0.1


def test_a_cut_answer_ends_where_it_was_told_to(monitor: SimulatedMonitor) -> None:
    monitor.faults.cut_next(after=15)
    assert receive_all(monitor) == b"HTTP/1.1 200 \r\n"


def test_garbage_takes_the_place_of_an_answer(monitor: SimulatedMonitor) -> None:
    monitor.faults.garbage_next(b"HTTP/1.1 nonsense\r\n\r\n")
    assert exchange(monitor.socket_path, GET) == b"HTTP/1.1 nonsense\r\n\r\n"


def test_a_dropped_answer_was_carried_out(monitor: SimulatedMonitor, call: Caller) -> None:
    monitor.faults.drop_next()
    body = b"PUT /entropy HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"
    assert receive_all(monitor, body) == b""
    assert call.get("/vm/config")["entropy"] == {"rate_limiter": None}


def test_a_scripted_refusal_leaves_the_machine_alone(
    monitor: SimulatedMonitor, call: Caller
) -> None:
    monitor.faults.refuse_next("no", status=413)
    reply = call("PUT", "/entropy", {})
    assert (reply.status, reply.fault) == (413, "no")
    assert call.get("/vm/config")["entropy"] is None


def test_a_connection_can_be_closed_at_once(monitor: SimulatedMonitor, call: Caller) -> None:
    monitor.faults.close_next_connection()
    with connect(monitor.socket_path) as connection:
        assert connection.recv(1) == b""
    assert call("GET", "/version").status == 200


def test_disturbances_queue_up_and_can_be_cleared(monitor: SimulatedMonitor, call: Caller) -> None:
    monitor.faults.refuse_next("first")
    monitor.faults.refuse_next("second")
    assert [call("GET", "/").fault, call("GET", "/").fault] == ["first", "second"]
    monitor.faults.refuse_next("never")
    monitor.faults.drop_next()
    monitor.faults.close_next_connection()
    monitor.faults.clear()
    assert call("GET", "/").status == 200


def test_stopping_does_not_wait_for_a_delay(monitor: SimulatedMonitor) -> None:
    monitor.faults.delay_next(60)
    with connect(monitor.socket_path) as connection:
        connection.sendall(GET)
        while not monitor.calls:
            time.sleep(0.001)
        begun = time.monotonic()
        monitor.stop()
        assert time.monotonic() - begun < 5


def test_calls_tell_what_was_asked_and_answered(monitor: SimulatedMonitor, call: Caller) -> None:
    call("GET", "/version")
    call("PUT", "/entropy", {"rate_limiter": None})
    call("PATCH", "/vm", {"state": "Paused"})
    exchange(monitor.socket_path, b"POST / HTTP/1.1\r\n\r\n")
    assert monitor.calls == (
        ReceivedCall("GET", "/version", None, 200),
        ReceivedCall("PUT", "/entropy", b'{"rate_limiter": null}', 204),
        ReceivedCall("PATCH", "/vm", b'{"state": "Paused"}', 400),
    )
    assert monitor.calls[2].json() == {"state": "Paused"}
    with pytest.raises(ValueError, match="Expecting value"):
        monitor.calls[0].json()


def test_a_disturbed_connection_goes_on(monitor: SimulatedMonitor) -> None:
    monitor.faults.garbage_next(b"HTTP/1.1 204 \r\n\r\n")
    with connect(monitor.socket_path) as connection:
        connection.sendall(GET)
        read_answers(connection, 1)
        connection.sendall(GET)
        assert API_VERSION.encode() in read_answers(connection, 1)
