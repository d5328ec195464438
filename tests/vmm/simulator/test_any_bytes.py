"""Whatever comes over the socket, the monitor answers or waits, and goes on."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generated_vmm.testing import SimulatedMonitor
from generated_vmm.testing.bodies import BodyReader, Misread, plain, read_json
from generated_vmm.testing.description import CURRENT, Json
from generated_vmm.testing.http import HttpRefusal, RequestParser
from tests.vmm.simulator.caller import Caller, connect

JSON_VALUES: st.SearchStrategy[Json] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
PIECES = st.sampled_from(
    [b"GET ", b"/ ", b"HTTP/1.1", b"\r\n", b"\r\n\r\n", b"Content-Length: 3", b"{}x", b":", b"\xff"]
)


@given(JSON_VALUES, st.sampled_from([None, 1]))
def test_json_reads_as_the_standard_library_reads_it(value: Json, indent: int | None) -> None:
    assert plain(read_json(json.dumps(value, indent=indent).encode())) == value


@given(st.binary() | st.text().map(str.encode))
def test_no_body_is_too_strange_to_be_refused(text: bytes) -> None:
    for schema in {one.body for one in CURRENT.operations} - {None}:
        with contextlib.suppress(Misread):
            BodyReader(CURRENT).read(str(schema), text)


@given(st.lists(PIECES | st.binary(max_size=1100)))
def test_the_parser_refuses_or_waits_and_always_has_room(pieces: list[bytes]) -> None:
    parser = RequestParser(payload_limit=100)
    sent = b"".join(pieces)
    while sent:
        assert 0 < parser.room <= 1024
        chunk, sent = sent[: parser.room], sent[parser.room :]
        with contextlib.suppress(HttpRefusal):
            parser.feed(chunk)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> SimulatedMonitor:
    return SimulatedMonitor(tmp_path_factory.mktemp("any") / "m.socket", check_files=False)


@settings(max_examples=60, deadline=None)
@given(st.lists(PIECES | st.binary(max_size=1100), max_size=8))
def test_the_monitor_survives_any_client(shared: SimulatedMonitor, pieces: list[bytes]) -> None:
    with shared:
        with connect(shared.socket_path) as connection:
            for piece in pieces:
                connection.sendall(piece)
        assert Caller(shared.socket_path)("GET", "/version").status == 200
