"""From bytes to operations: request lines, phases, deprecations, bodies that cannot be read."""

import contextlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generated_vmm import API_VERSION
from generated_vmm.testing import SimulatedMonitor
from generated_vmm.testing.bodies import BodyReader, Misread, plain, read_json
from generated_vmm.testing.description import CURRENT, Json, Operation
from generated_vmm.testing.http import HttpRefusal, RequestParser
from tests.vmm.real.agreement import first_words
from tests.vmm.simulator.caller import Caller, connect
from tests.vmm.simulator.everything import Bodies


@pytest.mark.parametrize(
    "path", ["/version", "/version/", "//version", "/version/more", "http://localhost/version"]
)
def test_more_spellings_than_one_are_understood(call: Caller, path: str) -> None:
    assert call.get(path) == {"firecracker_version": API_VERSION}


def test_the_root_has_spellings_too(call: Caller) -> None:
    assert call.get("http://localhost") == call.get("/")


BEFORE = "The requested operation is not supported before starting the microVM."
AFTER = "The requested operation is not supported after starting the microVM."

OPERATIONS = [one for one in CURRENT.operations if not one.phase.startswith("any")]
IS_FIRST = {one: one.phase in ("before start", "fresh") for one in OPERATIONS}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.endpoint)
def test_an_operation_is_refused_in_another_phase_than_its_own(
    call: Caller, start: Callable[[], None], folder: Path, operation: Operation
) -> None:
    if IS_FIRST[operation]:
        start()
    reply = call(*Bodies(CURRENT, folder).call(operation))
    assert (reply.status, reply.fault) == (400, AFTER if IS_FIRST[operation] else BEFORE)


@pytest.mark.parametrize("path", ["/", "/version", "/vm/config", "/machine-config"])
def test_what_can_be_read_can_be_read_in_every_phase(
    call: Caller, start: Callable[[], None], path: str
) -> None:
    before = call.get(path)
    start()
    call.accepted("PATCH", "/vm", {"state": "Paused"})
    assert call.get(path).keys() == before.keys()


MACHINE = {"vcpu_count": 1, "mem_size_mib": 128}
BACKEND = {"backend_path": "/no/memory", "backend_type": "File"}
LOAD = {"snapshot_path": "/no/state"}


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("PUT", "/machine-config", MACHINE | {"cpu_template": "None"}, 204),
        ("PATCH", "/machine-config", {"cpu_template": "T2"}, 204),
        ("PUT", "/machine-config", MACHINE | {"cpu_template": "T2", "vcpu_count": 0}, 400),
        ("PUT", "/vsock", {"guest_cid": 3, "uds_path": "/no/such/folder/v", "vsock_id": "v"}, 400),
        ("PUT", "/mmds/config", {"network_interfaces": []}, 400),
        ("PUT", "/mmds/config", {"network_interfaces": [], "version": "V1"}, 400),
        ("PUT", "/snapshot/load", LOAD | {"mem_file_path": "/no/memory"}, 400),
        (
            "PUT",
            "/snapshot/load",
            LOAD | {"mem_backend": BACKEND, "enable_diff_snapshots": True},
            400,
        ),
    ],
)
def test_a_deprecated_field_is_told(
    call: Caller, method: str, path: str, body: object, status: int
) -> None:
    reply = call(method, path, body)
    assert (reply.status, reply.deprecated) == (status, True)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/machine-config", MACHINE | {"cpu_template": None}),
        ("PUT", "/vsock", {"guest_cid": 3, "uds_path": "/no/such/folder/v", "vsock_id": None}),
        ("PUT", "/mmds/config", {"network_interfaces": [], "version": "V2"}),
        ("PUT", "/snapshot/load", LOAD | {"mem_backend": BACKEND}),
        ("PUT", "/machine-config", MACHINE | {"cpu_template": "T2", "unknown": 1}),
    ],
)
def test_nothing_is_told_otherwise(call: Caller, method: str, path: str, body: object) -> None:
    assert not call(method, path, body).deprecated


# Bodies that cannot be read, and whatever else comes over the socket


NAME = re.compile(r"`([^`]*)`")
DESCRIBED = {
    "Action": "InstanceActionInfo",
    "MachineConfig": "MachineConfiguration",
    "SnapshotLoad": "SnapshotLoadParams",
}


class Measured(TypedDict):
    shape: str
    body: str
    said: str


MEASURED: list[Measured] = json.loads(
    Path(__file__).with_name("measured_refusals.json").read_text(encoding="utf-8")
)


def beginning(said: str) -> tuple[str, str]:
    """The first words and, where they are about a field or value, its name."""
    named = NAME.search(said)
    return first_words(said), named.group(1) if named and "expected `" not in said[:10] else ""


def is_json(text: str) -> bool:
    try:
        json.dumps(json.loads(text), ensure_ascii=False).encode()
    except ValueError:
        return False
    return True


def said_of(shape: str, body: bytes) -> str:
    try:
        BodyReader(CURRENT).read(DESCRIBED.get(shape, shape), body)
    except Misread as misread:
        return misread.words
    return "ok"


@pytest.mark.parametrize("case", MEASURED, ids=lambda case: f"{case['shape']} {case['body']}")
def test_a_body_is_judged_as_serde_json_judges_it(case: Measured) -> None:
    said = said_of(case["shape"], case["body"].encode())
    if is_json(case["body"]):
        assert beginning(said) == beginning(case["said"])
    else:
        assert said != "ok"


def test_bytes_that_are_no_text_are_refused() -> None:
    assert said_of("Vm", b'{"state":"\xff"}') == "invalid unicode code point"


def test_nesting_has_an_end(call: Caller) -> None:
    call.accepted("PUT", "/mmds", "[" * 127 + "]" * 127)
    for depth in (128, 10_000):
        fault = call("PUT", "/mmds", "[" * depth + "]" * depth).fault
        assert "recursion limit exceeded" in fault


@pytest.mark.parametrize(
    "path", ["a\0b", "", "/" + "x" * 5000, "\N{SNOWMAN}" * 100], ids=["NUL", "none", "long", "snow"]
)
def test_no_path_ends_the_monitor(call: Caller, path: str) -> None:
    bodies = {
        "/boot-source": {"kernel_image_path": path},
        "/drives/a": {"drive_id": "a", "is_root_device": False, "path_on_host": path},
        "/drives/b": {"drive_id": "b", "is_root_device": False, "socket": path},
        "/logger": {"log_path": path},
        "/metrics": {"metrics_path": path},
        "/network-interfaces/n": {"iface_id": "n", "host_dev_name": path},
        "/pmem/p": {"id": "p", "path_on_host": path},
        "/serial": {"serial_out_path": path},
        "/vsock": {"guest_cid": 3, "uds_path": path},
    }
    for endpoint, body in bodies.items():
        assert call("PUT", endpoint, body).status in (204, 400), endpoint
    backend = {"backend_path": path, "backend_type": "File"}
    load = {"snapshot_path": path, "mem_backend": backend}
    assert call("PUT", "/snapshot/load", load).status == 400


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
