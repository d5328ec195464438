"""However an answer is cut into parts it reads the same; any bytes end in an answer or an error."""

from __future__ import annotations

import contextlib
import itertools

from hypothesis import given
from hypothesis import strategies as st

from generated_vmm.transport import CallFailed
from generated_vmm.transport.http import AnswerParser
from tests.vmm.scripted import answer

CHUNKED = b"HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n5\r\n[1,2,\r\n2\r\n3]\r\n0\r\n\r\n"
ANSWERS = [
    answer(200, b'{"a":1}'),
    answer(400, b'{"fault_message":"no"}', b"Deprecation: true"),
    b"HTTP/1.1 100 \r\n\r\nHTTP/1.1 204 \r\n\r\n",
    CHUNKED,
]


def read(parts: list[bytes]) -> tuple[int, bytes, list[tuple[bytes, bytes]], bool]:
    parser = AnswerParser(10_000)
    complete = [parser.feed(part) for part in parts]
    assert complete == [False] * (len(parts) - 1) + [True]
    return parser.status_code, parser.content, parser.headers, parser.reusable


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
