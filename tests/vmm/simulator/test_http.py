"""The bytes on the wire, and ten connections with one request at a time."""

import time
from contextlib import ExitStack

import pytest

from generated_vmm import API_VERSION
from generated_vmm.testing import SimulatedMonitor
from tests.vmm.simulator.caller import Caller, connect, exchange, read_answers
from tests.vmm.simulator.conftest import MakeMonitor, Options

HEAD = b"Server: Firecracker API\r\nConnection: keep-alive\r\n"
VERSION = b'{"firecracker_version":"%s"}' % API_VERSION.encode()
VERSION_ANSWER = (
    b"HTTP/1.1 200 \r\n" + HEAD + b"Content-Type: application/json\r\nContent-Length: "
) + b"%d\r\n\r\n%s" % (len(VERSION), VERSION)
NO_CONTENT = b"HTTP/1.1 204 \r\n" + HEAD + b"\r\n"


def refusal(reason: bytes) -> bytes:
    body = b'{ "error": "%s\nAll previous unanswered requests will be dropped." }' % reason
    head = b"HTTP/1.1 400 \r\n" + HEAD + b"Content-Type: application/json\r\nContent-Length: "
    return head + b"%d\r\n\r\n" % len(body) + body


def put_entropy(body: bytes = b"{}", *headers: bytes) -> bytes:
    lines = [b"PUT /entropy HTTP/1.1", b"Content-Length: %d" % len(body), *headers, b"", body]
    return b"\r\n".join(lines)


def test_a_get_is_answered_byte_for_byte(monitor: SimulatedMonitor) -> None:
    assert exchange(monitor.socket_path, b"GET /version HTTP/1.1\r\n\r\n") == VERSION_ANSWER


def test_deprecation_stands_before_the_content_type(monitor: SimulatedMonitor) -> None:
    body = b'{"network_interfaces":[]}'
    request = b"PUT /mmds/config HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    answer = exchange(monitor.socket_path, request)
    assert answer.startswith(
        b"HTTP/1.1 400 \r\n" + HEAD + b"Deprecation: true\r\nContent-Type: application/json\r\n"
    )


UNSUPPORTED = b"Invalid HTTP Method: Unsupported HTTP method."
VERSIONS = b"Invalid HTTP Version: Unsupported HTTP version."
HEADER = b"Invalid header. Reason: "


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (b"POST / HTTP/1.1", UNSUPPORTED),
        (b"HEAD / HTTP/1.1", UNSUPPORTED),
        (b"OPTIONS / HTTP/1.1", UNSUPPORTED),
        (b"get / HTTP/1.1", UNSUPPORTED),
        (b"GET /", b"Invalid request."),
        (b"GET", b"Invalid request."),
        (b"GET  HTTP/1.1", b"Invalid URI: Empty URI not allowed."),
        (b"GET / HTTP/2.0", VERSIONS),
        (b"GET / HTTP/1.1 ", VERSIONS),
        (b"GET / HTTP/1.1\r\nno colon", HEADER + b"Header is incorrectly formatted. Key: no colon"),
        *(
            (
                b"GET / HTTP/1.1\r\nContent-Length: " + length,
                HEADER + b"Invalid value. Key:Content-Length; Value: " + length,
            )
            for length in (b"x", b"-1", b"4294967296")
        ),
    ],
)
def test_a_bad_head(monitor: SimulatedMonitor, lines: bytes, reason: bytes) -> None:
    assert exchange(monitor.socket_path, lines + b"\r\n\r\n") == refusal(reason)


@pytest.mark.parametrize(
    "header",
    [
        b"Accept: text/html",
        b"Accept-Encoding: gzip, identity;q=0.5, *;q=0",
        b"Connection: close",
        b"Content-Type: text/nonsense",
        b"Content-Length: 0",
        b"content-length:0",
        b"Expect: the unexpected",
        b"Host: ",
    ],
)
def test_other_headers_are_ignored(monitor: SimulatedMonitor, header: bytes) -> None:
    request = b"GET /version HTTP/1.1\r\n" + header + b"\r\n\r\n"
    assert exchange(monitor.socket_path, request) == VERSION_ANSWER


def test_the_connection_stays_open_whatever_the_client_says(monitor: SimulatedMonitor) -> None:
    request = b"GET /version HTTP/1.0\r\nConnection: close\r\n\r\n"
    with connect(monitor.socket_path) as connection:
        for _ in range(3):
            connection.sendall(request)
            assert read_answers(connection, 1) == VERSION_ANSWER


def test_requests_may_come_in_one_piece_or_byte_by_byte(monitor: SimulatedMonitor) -> None:
    requests = b"GET /version HTTP/1.1\r\n\r\n" + put_entropy() + b"GET /version HTTP/1.1\r\n\r\n"
    assert exchange(monitor.socket_path, requests, expect=3) == (
        VERSION_ANSWER + NO_CONTENT + VERSION_ANSWER
    )
    with connect(monitor.socket_path) as connection:
        for byte in put_entropy():
            connection.sendall(bytes([byte]))
        assert read_answers(connection, 1) == NO_CONTENT


def test_a_chunked_body_is_none_and_its_chunks_are_the_next_request(
    monitor: SimulatedMonitor,
) -> None:
    request = b"PUT /entropy HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    with connect(monitor.socket_path) as connection:
        connection.sendall(request)
        assert b"Empty PUT request." in read_answers(connection, 1)
        connection.sendall(b"2\r\n{}\r\n0\r\n\r\n")
        assert read_answers(connection, 1) == refusal(b"Invalid request.")


class TestLimits:
    def test_a_line_must_fit_into_1024_bytes(self, monitor: SimulatedMonitor) -> None:
        filler = 1022 - len("GET /version/ HTTP/1.1")
        fits = b"GET /version/" + b"x" * filler + b" HTTP/1.1\r\n\r\n"
        assert exchange(monitor.socket_path, fits) == VERSION_ANSWER
        long = b"GET /version/" + b"x" * (filler + 1) + b" HTTP/1.1\r\n\r\n"
        assert exchange(monitor.socket_path, long).startswith(refusal(b"Invalid request."))

    def test_a_header_must_fit_into_1024_bytes(self, monitor: SimulatedMonitor) -> None:
        request = b"GET /version HTTP/1.1\r\nLong: " + b"x" * 1018 + b"\r\n\r\n"
        answer = exchange(monitor.socket_path, request)
        assert b"Invalid header. Reason: Invalid content length. Header: Long: xxx" in answer

    @pytest.mark.parametrize(("options", "limit"), [({"payload_limit": 50}, 50), ({}, 51_200)])
    def test_a_body_up_to_the_limit_is_read(
        self, make_monitor: MakeMonitor, options: Options, limit: int
    ) -> None:
        path = make_monitor(**options).socket_path
        assert exchange(path, put_entropy(b"{}" + b" " * (limit - 2))) == NO_CONTENT
        head = b"PUT /entropy HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (limit + 1)
        assert exchange(path, head) == refusal(
            b"Request payload with size %d is larger than the limit of %d allowed by server."
            % (limit + 1, limit)
        )


class TestAfterARefusal:
    def test_requests_read_together_with_a_bad_one_are_dropped(
        self, monitor: SimulatedMonitor
    ) -> None:
        with connect(monitor.socket_path) as connection:
            connection.sendall(put_entropy() + b"POST / HTTP/1.1\r\n\r\n")
            answer = read_answers(connection, 1)
        assert answer == refusal(b"Invalid HTTP Method: Unsupported HTTP method.")
        assert monitor.calls == ()

    def test_another_connection_is_not_affected(self, monitor: SimulatedMonitor) -> None:
        with connect(monitor.socket_path) as connection:
            connection.sendall(b"POST / HTTP/1.1\r\n\r\n")
            read_answers(connection, 1)
            answer = exchange(monitor.socket_path, b"GET /version HTTP/1.1\r\n\r\n")
            assert answer == VERSION_ANSWER


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
