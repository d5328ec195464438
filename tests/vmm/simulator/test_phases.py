"""Which operation is for which phase: the table of the monitor, row by row."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from generated_vmm.testing.description import CURRENT
from generated_vmm.testing.rule import ACTIONS, CHECKS
from tests.vmm.simulator.caller import Caller

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
    ("PUT", "/snapshot/load", {"snapshot_path": "s", "mem_file_path": "m"}),
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
