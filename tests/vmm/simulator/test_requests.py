"""From request lines to operations: paths, phases, deprecations."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from generated_vmm import API_VERSION
from generated_vmm.testing.description import CURRENT
from generated_vmm.testing.rule import ACTIONS, CHECKS
from tests.vmm.simulator.caller import Caller


@pytest.mark.parametrize(
    ("method", "path", "body", "fault"),
    [
        ("GET", "/nope", None, "Invalid request method and/or path: GET nope."),
        ("GET", "/nope/more", None, "Invalid request method and/or path: GET nope."),
        ("PUT", "/nope", {}, "Invalid request method and/or path: PUT nope."),
        ("DELETE", "/vsock", None, "Invalid request method and/or path: DELETE vsock."),
        ("GET", "/drives/a", None, "Invalid request method and/or path: GET drives."),
        ("GET", "/vm", None, "Invalid request method and/or path: GET vm."),
        ("PUT", "/vm/config", {}, "Invalid request method and/or path: PUT vm."),
        ("GET", "/hotplug", None, "Invalid request method and/or path: GET hotplug."),
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
        ("PUT", "/nope", None, "Empty PUT request."),
        ("PATCH", "/vm", None, "Empty PATCH request."),
        ("PATCH", "/balloon", None, "Empty PATCH request."),
        ("GET", "/version", {}, "GET request cannot have a body."),
        ("GET", "/nope", {}, "GET request cannot have a body."),
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

ONLY_BEFORE: list[tuple[str, str, object]] = [
    ("PUT", "/balloon", {"amount_mib": 1, "deflate_on_oom": False}),
    ("PUT", "/boot-source", {"kernel_image_path": "/dev/null"}),
    ("PUT", "/cpu-config", {}),
    ("PUT", "/logger", {}),
    ("PUT", "/machine-config", {"vcpu_count": 1, "mem_size_mib": 128}),
    ("PATCH", "/machine-config", {"vcpu_count": 1}),
    ("PUT", "/metrics", {"metrics_path": "/dev/null"}),
    ("PUT", "/mmds/config", {"network_interfaces": ["eth0"], "version": "V2"}),
    ("PUT", "/entropy", {}),
    ("PUT", "/serial", {}),
    ("PUT", "/hotplug/memory", {"total_size_mib": 1024}),
    ("PUT", "/vsock", {"guest_cid": 3, "uds_path": "v.sock"}),
    (
        "PUT",
        "/snapshot/load",
        {"snapshot_path": "s", "mem_backend": {"backend_path": "m", "backend_type": "File"}},
    ),
    ("PUT", "/actions", {"action_type": "InstanceStart"}),
]
ONLY_AFTER: list[tuple[str, str, object]] = [
    ("PATCH", "/balloon", {"amount_mib": 1}),
    ("GET", "/balloon/statistics", None),
    ("PATCH", "/balloon/statistics", {"stats_polling_interval_s": 1}),
    ("PATCH", "/balloon/hinting/start", None),
    ("GET", "/balloon/hinting/status", None),
    ("PATCH", "/balloon/hinting/stop", None),
    ("PATCH", "/drives/a", {"drive_id": "a"}),
    ("PATCH", "/pmem/a", {"id": "a"}),
    ("PATCH", "/network-interfaces/a", {"iface_id": "a"}),
    ("DELETE", "/drives/a", None),
    ("DELETE", "/pmem/a", None),
    ("DELETE", "/network-interfaces/a", None),
    ("PATCH", "/hotplug/memory", {"requested_size_mib": 0}),
    ("GET", "/hotplug/memory", None),
    ("PUT", "/snapshot/create", {"snapshot_path": "s", "mem_file_path": "m"}),
    ("PATCH", "/vm", {"state": "Paused"}),
    ("PUT", "/actions", {"action_type": "FlushMetrics"}),
    ("PUT", "/actions", {"action_type": "SendCtrlAltDel"}),
]


@pytest.mark.parametrize(("method", "path", "body"), ONLY_BEFORE)
def test_configuration_is_refused_once_the_guest_runs(
    call: Caller, start: Callable[[], None], method: str, path: str, body: object
) -> None:
    start()
    reply = call(method, path, body)
    assert (reply.status, reply.fault) == (400, AFTER)


@pytest.mark.parametrize(("method", "path", "body"), ONLY_AFTER)
def test_control_is_refused_until_the_guest_runs(
    call: Caller, method: str, path: str, body: object
) -> None:
    reply = call(method, path, body)
    assert (reply.status, reply.fault) == (400, BEFORE)


def test_the_lists_above_name_every_operation_with_a_phase() -> None:
    listed = {(method, path) for method, path, _ in ONLY_BEFORE + ONLY_AFTER}
    bound = {
        one.endpoint: (one.method, re.sub(r"\{.*\}", "a", one.path))
        for one in CURRENT.operations
        if not one.phase.startswith("any")
    }
    ruled = {bound[endpoint] for endpoint in bound.keys() & {**ACTIONS, **CHECKS}}
    assert ruled <= listed - {("PUT", "/actions")} <= set(bound.values())


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
