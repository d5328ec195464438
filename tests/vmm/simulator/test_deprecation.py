"""`Deprecation: true`: with which calls, and also with their refusals."""

from __future__ import annotations

import pytest

from tests.vmm.simulator.caller import Caller

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
