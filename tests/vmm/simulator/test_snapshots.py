"""Snapshots: written by one monitor, loaded by a fresh one."""

from __future__ import annotations

from pathlib import Path

import pytest

from generated_vmm.testing import SimulatedMonitor
from tests.vmm.simulator.caller import Caller
from tests.vmm.simulator.saved import files as files
from tests.vmm.simulator.saved import fresh as fresh
from tests.vmm.simulator.saved import load
from tests.vmm.simulator.saved import paused as paused
from tests.vmm.simulator.saved import saved as saved

NOT_RESTORED = "Load snapshot error: Failed to restore from snapshot: "
NO_STATE = f"{NOT_RESTORED}Failed to get snapshot state from file: "


def test_a_snapshot_is_as_large_as_the_memory(saved: dict[str, str]) -> None:
    assert Path(saved["mem_file_path"]).stat().st_size == 64 * 1024 * 1024


def test_another_monitor_goes_on_where_the_first_was(
    saved: dict[str, str], fresh: SimulatedMonitor
) -> None:
    call = Caller(fresh.socket_path)
    call.accepted("PUT", "/snapshot/load", load(saved))
    assert call.get("/")["state"] == "Paused"
    config = call.get("/vm/config")
    assert config["network-interfaces"] == [
        {
            "iface_id": "eth0",
            "host_dev_name": "tap0",
            "guest_mac": "06:00:00:00:00:0a",
            "mtu": None,
            "rx_rate_limiter": None,
            "tx_rate_limiter": None,
        }
    ]
    assert call.get("/machine-config")["mem_size_mib"] == 64
    call.accepted("PATCH", "/vm", {"state": "Resumed"})


def test_a_snapshot_can_be_resumed_at_once_with_other_devices(
    saved: dict[str, str], fresh: SimulatedMonitor, folder: Path
) -> None:
    call = Caller(fresh.socket_path)
    other = str(folder / "other.socket")
    body = load(
        saved,
        resume_vm=True,
        network_overrides=[{"iface_id": "eth0", "host_dev_name": "tap7"}],
        vsock_override={"uds_path": other},
    )
    call.accepted("PUT", "/snapshot/load", body)
    assert call.get("/")["state"] == "Running"
    config = call.get("/vm/config")
    assert config["vsock"] == {"guest_cid": 3, "uds_path": other}
    interfaces = config["network-interfaces"]
    assert isinstance(interfaces, list)
    assert isinstance(interfaces[0], dict)
    assert interfaces[0]["host_dev_name"] == "tap7"


def test_a_running_guest_is_not_saved(paused: Caller, files: dict[str, str]) -> None:
    paused.accepted("PATCH", "/vm", {"state": "Resumed"})
    assert paused("PUT", "/snapshot/create", files).fault == (
        "Create snapshot error: Cannot save the microVM state: "
        "Operation not allowed: save/restore unavailable while running"
    )


def test_a_place_that_cannot_be_written_is_refused(paused: Caller, files: dict[str, str]) -> None:
    body = files | {"snapshot_path": "/no/such/folder/state"}
    assert paused("PUT", "/snapshot/create", body).fault == (
        "Create snapshot error: Cannot perform open on the snapshot backing file: "
        "No such file or directory (os error 2)"
    )


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/boot-source", {"kernel_image_path": "/no/such/kernel"}),
        ("PUT", "/drives/a", {"drive_id": "a", "is_root_device": False}),
        ("PUT", "/machine-config", {"vcpu_count": 0, "mem_size_mib": 1}),
        ("PUT", "/entropy", {}),
    ],
)
def test_after_configuring_even_in_vain_nothing_can_be_loaded(
    saved: dict[str, str], fresh: SimulatedMonitor, method: str, path: str, body: object
) -> None:
    call = Caller(fresh.socket_path)
    call(method, path, body)
    assert call("PUT", "/snapshot/load", load(saved)).fault == (
        "Load snapshot error: Loading a microVM snapshot not allowed after configuring "
        "boot-specific resources."
    )
    assert fresh.exit_code is None


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/logger", {}),
        ("PUT", "/serial", {}),
        ("PUT", "/cpu-config", {}),
        ("PUT", "/mmds", {}),
        ("PUT", "/drives/a", {"drive_id": "b", "is_root_device": False}),
        ("PUT", "/drives/a", {"unknown": 1}),
    ],
)
def test_what_is_no_boot_configuration_does_not_stand_in_the_way(
    saved: dict[str, str], fresh: SimulatedMonitor, method: str, path: str, body: object
) -> None:
    call = Caller(fresh.socket_path)
    call(method, path, body)
    call.accepted("PUT", "/snapshot/load", load(saved))
