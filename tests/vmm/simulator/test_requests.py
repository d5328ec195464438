"""From request lines to operations: paths, phases, deprecations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from generated_vmm import API_VERSION
from generated_vmm.testing.description import CURRENT, Operation
from tests.vmm.simulator.caller import Caller
from tests.vmm.simulator.everything import Bodies


@pytest.mark.parametrize(
    ("method", "path", "body", "fault"),
    [
        ("GET", "/nope", None, "Invalid request method and/or path: GET nope."),
        ("DELETE", "/vsock", None, "Invalid request method and/or path: DELETE vsock."),
        ("GET", "/drives/a", None, "Invalid request method and/or path: GET drives."),
        ("PUT", "/vm/config", {}, "Invalid request method and/or path: PUT vm."),
        ("PUT", "/hotplug/cpu", {}, "Invalid request method and/or path: PUT hotplug."),
        ("GET", "/version?x=1", None, "Invalid request method and/or path: GET version?x=1."),
        ("GET", "/vm/config?x=1", None, "Invalid request method and/or path: GET vm."),
        ("PUT", "/snapshot", {}, "Missing snapshot operation type."),
        (
            "PUT",
            "/snapshot/drop",
            {},
            "Invalid request method and/or path: PUT /snapshot/drop.",
        ),
        ("GET", "/balloon/size", None, "Unrecognized GET request path `size`."),
        ("GET", "/balloon/hinting", None, "Unrecognized GET request path `/hinting/`."),
        ("PATCH", "/balloon/hinting/go", {}, "Unrecognized PATCH request path `/hinting/go`."),
        ("PUT", "/mmds/data", {}, "Unrecognized PUT request path `data`."),
        ("PUT", "/boot-source", None, "Empty PUT request."),
        ("PATCH", "/vm", None, "Empty PATCH request."),
        ("GET", "/version", {}, "GET request cannot have a body."),
    ],
)
def test_what_there_is_not(call: Caller, method: str, path: str, body: object, fault: str) -> None:
    reply = call(method, path, body)
    assert (reply.status, reply.fault) == (400, fault)


@pytest.mark.parametrize(
    "path",
    ["/version", "/version/", "//version", "/version/more", "http://localhost/version"],
)
def test_more_spellings_than_one_are_understood(call: Caller, path: str) -> None:
    assert call.get(path) == {"firecracker_version": API_VERSION}


def test_the_root_has_spellings_too(call: Caller) -> None:
    assert call.get("http://localhost") == call.get("/")


def test_more_after_the_path_of_a_put_is_ignored(call: Caller) -> None:
    call.accepted("PUT", "/entropy/more/and/more", {})


def test_a_patch_below_balloon_is_one_of_the_balloon(call: Caller) -> None:
    assert call("PATCH", "/balloon/anything", {"amount": 1}).fault.startswith(
        "An error occurred when deserializing the json body of a request: unknown field `amount`, "
        "expected `amount_mib`"
    )


BEFORE = "The requested operation is not supported before starting the microVM."
AFTER = "The requested operation is not supported after starting the microVM."

ACTION = {name: {"action_type": name} for name in ("InstanceStart", "FlushMetrics")}
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


def test_an_action_has_a_phase_too(call: Caller, start: Callable[[], None]) -> None:
    assert call("PUT", "/actions", ACTION["FlushMetrics"]).fault == BEFORE
    start()
    assert call("PUT", "/actions", ACTION["InstanceStart"]).fault == AFTER


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
