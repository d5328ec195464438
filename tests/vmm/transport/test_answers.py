"""Answers in every shape that a server may send, and the calls after them."""

import contextlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generated_vmm.errors import VmmConnectionError, VmmProtocolError
from generated_vmm.transport import CallFailed
from generated_vmm.transport.http import AnswerParser
from tests.vmm.scripted import NO_CONTENT, OK, Play, Wire, answer
from tests.vmm.transport.conftest import Call, Serve, fails

CHUNKED = b"HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[1\r\n3\r\n,2]\r\n0\r\n\r\n"
INTERIM = b"HTTP/1.1 100 Continue\r\nServer: x\r\n\r\n"

READABLE = {
    "no content, no length": (NO_CONTENT, 204, b""),
    "with a length": (OK, 200, b"{}"),
    "chunked": (CHUNKED, 200, b"[1,2]"),
    "after an interim answer": (INTERIM + OK, 200, b"{}"),
    "interim answers, then no content": (INTERIM + INTERIM + NO_CONTENT, 204, b""),
    "a fault of the monitor": (
        answer(400, b'{"fault_message":"no"}'),
        400,
        b'{"fault_message":"no"}',
    ),
    "bytes after the response": (OK + b"{}", 200, b"{}"),
    "a second answer behind it": (OK + NO_CONTENT, 200, b"{}"),
}
UNREADABLE = {
    "no HTTP": b"SSH-2.0-OpenSSH_9.9\r\n",
    "binary": bytes(range(256)),
    "two lengths": b"HTTP/1.1 200 \r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "length, chunks": b"HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}",
    "bad chunk": b"HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}",
    "another protocol": b"HTTP/1.1 101 \r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "huge body": answer(200, b" " * 10_000),
    "endless header": b"HTTP/1.1 200 \r\nX: " + b"x" * 10_000,
    "endless interim answers": INTERIM * 1_000,
}
SAID: dict[str, str] = dict.fromkeys(
    ("huge body", "endless header", "endless interim answers"), "is larger than 10000 bytes$"
)
CUT = {
    "before it begins": b"",
    "in the status line": b"HTTP/1.1 20",
    "in the headers": b"HTTP/1.1 200 \r\nContent-Le",
    "in the body": b"HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\n{}",
    "in a chunk": b"HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}",
    "after an interim answer": INTERIM,
}


def first_bad_then_ok(first: bytes, *, cut: bool = False) -> Play:
    """The first connection is answered with `first`, later ones properly."""
    seen: list[Wire] = []

    def play(wire: Wire) -> None:
        seen.append(wire)
        if len(seen) == 1:
            wire.request()
            wire.send(first)
        if len(seen) > 1 or not cut:
            wire.answer_all()

    return play


@pytest.mark.parametrize(("sent", "status", "body"), READABLE.values(), ids=READABLE)
def test_a_readable_answer(call: Call, serve: Serve, sent: bytes, status: int, body: bytes) -> None:
    server = serve(lambda wire: wire.answer_all(sent))
    for _ in range(2):
        response = call()
        assert (response.status_code, response.content) == (status, body)
    assert len(server.connections) == 2


@pytest.mark.parametrize("name", UNREADABLE)
def test_an_unreadable_answer_is_a_protocol_error_and_the_next_call_works(
    call: Call, serve: Serve, name: str
) -> None:
    server = serve(first_bad_then_ok(UNREADABLE[name]))
    said = SAID.get(name, "is not HTTP: .")
    with fails(VmmProtocolError, sent=True, match=f"^the response {said}"):
        call()
    assert call().content == b"{}"
    assert (len(server.requests), len(server.connections)) == (2, 2)


@pytest.mark.parametrize("sent", CUT.values(), ids=CUT)
def test_a_cut_answer_is_an_error_and_the_next_call_works(
    call: Call, serve: Serve, sent: bytes
) -> None:
    server = serve(first_bad_then_ok(sent, cut=True))
    kind = VmmProtocolError if sent else VmmConnectionError
    with fails(kind, sent=True, match="cut off after" if sent else "closed it without a response"):
        call()
    assert call().content == b"{}"
    assert len(server.requests) == 2


def test_an_answer_without_a_length_ends_with_the_connection(call: Call, serve: Serve) -> None:
    def play(wire: Wire) -> None:
        wire.request()
        wire.send(b"HTTP/1.1 200 \r\n\r\n[1]")

    serve(play)
    assert call().content == b"[1]"
    assert call().content == b"[1]"


def test_the_limit_of_an_answer_is_exact() -> None:
    assert AnswerParser(len(OK)).feed(OK)
    with pytest.raises(CallFailed, match=f"larger than {len(OK) - 1} bytes"):
        AnswerParser(len(OK) - 1).feed(OK)


def test_the_limit_begins_anew_with_each_part_that_is_taken() -> None:
    parser = AnswerParser(200)
    parser.feed(b"HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(1000):  # more bytes around the content than the limit
        assert not parser.feed(b"1\r\nx\r\n")
        assert parser.take() == b"x"
    parser.feed(b"1;" + b"x" * 180)
    assert parser.take() == b""
    with pytest.raises(CallFailed, match="is larger than"):
        parser.feed(b"x" * 100)


def test_headers_arrive_as_they_were_sent(call: Call, serve: Serve) -> None:
    serve(lambda wire: wire.answer_all(answer(200, b"{}", b"Deprecation: true")))
    assert (b"deprecation", b"true") in call().headers


# However an answer is cut into parts it reads the same; any bytes end in an answer or an error


CHUNKED_IN_THREE = (
    b"HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n5\r\n[1,2,\r\n2\r\n3]\r\n0\r\n\r\n"
)
ANSWERS = [
    answer(200, b'{"a":1}'),
    answer(400, b'{"fault_message":"no"}', b"Deprecation: true"),
    b"HTTP/1.1 100 \r\n\r\nHTTP/1.1 204 \r\n\r\n",
    CHUNKED_IN_THREE,
]


def read(parts: list[bytes]) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
    parser = AnswerParser(10_000)
    complete = [parser.feed(part) for part in parts]
    assert complete == [False] * (len(parts) - 1) + [True]
    return parser.status_code, parser.content, parser.headers


@given(st.sampled_from(ANSWERS), st.data())
def test_the_cuts_do_not_matter(whole: bytes, data: st.DataObject) -> None:
    places = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1), max_size=8)))
    bounds = [0, *places, len(whole)]
    parts = [whole[start:end] for start, end in itertools.pairwise(bounds)]
    assert read(parts) == read([whole])


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=5), st.sampled_from(ANSWERS))
def test_any_bytes_end_in_an_answer_or_a_failed_call(parts: list[bytes], whole: bytes) -> None:
    parser = AnswerParser(1_000)
    with contextlib.suppress(CallFailed):
        for part in [whole[:20], *parts]:
            if parser.feed(part):
                return
        assert parser.feed(b"")
