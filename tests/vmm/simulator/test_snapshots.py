"""Snapshots: written by one monitor, loaded by a fresh one."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from generated_vmm.testing import SimulatedMonitor
from tests.vmm.simulator.caller import Caller
from tests.vmm.simulator.conftest import MakeMonitor


@pytest.fixture
def files(folder: Path) -> dict[str, str]:
    return {"snapshot_path": str(folder / "state"), "mem_file_path": str(folder / "memory")}


def load(files: dict[str, str], **more: object) -> dict[str, object]:
    backend = {"backend_path": files["mem_file_path"], "backend_type": "File"}
    return {"snapshot_path": files["snapshot_path"], "mem_backend": backend, **more}


@pytest.fixture
def paused(call: Caller, kernel: str, folder: Path) -> Caller:
    """A paused guest with a network interface and a vsock."""
    call.accepted("PUT", "/machine-config", {"vcpu_count": 2, "mem_size_mib": 64})
    call.accepted("PUT", "/boot-source", {"kernel_image_path": kernel})
    call.accepted(
        "PUT",
        "/network-interfaces/eth0",
        {"iface_id": "eth0", "host_dev_name": "tap0", "guest_mac": "06:00:00:00:00:0A"},
    )
    call.accepted("PUT", "/vsock", {"guest_cid": 3, "uds_path": str(folder / "vsock.socket")})
    call.accepted("PUT", "/actions", {"action_type": "InstanceStart"})
    call.accepted("PATCH", "/vm", {"state": "Paused"})
    return call


@pytest.fixture
def saved(paused: Caller, monitor: SimulatedMonitor, files: dict[str, str]) -> dict[str, str]:
    """The files of a snapshot whose monitor is gone."""
    paused.accepted("PUT", "/snapshot/create", files)
    monitor.stop()
    return files


@pytest.fixture
def fresh(make_monitor: MakeMonitor) -> SimulatedMonitor:
    return make_monitor("fresh.socket")


NOT_RESTORED = "Load snapshot error: Failed to restore from snapshot: "
NO_STATE = f"{NOT_RESTORED}Failed to get snapshot state from file: "


def test_a_snapshot_is_as_large_as_the_memory(saved: dict[str, str]) -> None:
    assert Path(saved["mem_file_path"]).stat().st_size == 64 * 1024 * 1024


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
    assert interfaces[0]["guest_mac"] == "06:00:00:00:00:0a"
    assert call.get("/machine-config")["mem_size_mib"] == 64


NOT_FRESH = (
    "Load snapshot error: Loading a microVM snapshot not allowed after configuring "
    "boot-specific resources."
)


@pytest.mark.parametrize(
    ("method", "path", "body", "may_load"),
    [
        ("PUT", "/boot-source", {"kernel_image_path": "/no/such/kernel"}, False),
        ("PUT", "/drives/a", {"drive_id": "a", "is_root_device": False}, False),
        ("PUT", "/machine-config", {"vcpu_count": 0, "mem_size_mib": 1}, False),
        ("PUT", "/entropy", {}, False),
        ("PUT", "/logger", {}, True),
        ("PUT", "/serial", {}, True),
        ("PUT", "/cpu-config", {}, True),
        ("PUT", "/mmds", {}, True),
        ("PUT", "/drives/a", {"drive_id": "b", "is_root_device": False}, True),
        ("PUT", "/drives/a", {"unknown": 1}, True),
    ],
)
def test_nothing_is_loaded_after_configuring_what_belongs_to_a_boot_even_in_vain(
    saved: dict[str, str],
    fresh: SimulatedMonitor,
    method: str,
    path: str,
    body: object,
    may_load: bool,
) -> None:
    call = Caller(fresh.socket_path)
    call(method, path, body)
    reply = call("PUT", "/snapshot/load", load(saved))
    assert (reply.json and reply.fault) == (None if may_load else NOT_FRESH)
    assert fresh.exit_code is None


def cut(path: str) -> None:
    Path(path).write_bytes(Path(path).read_bytes()[:-5])


FAILURES: dict[str, tuple[dict[str, object], Callable[[str], object], str]] = {
    "no state": (
        {"snapshot_path": "/no/state"},
        os.stat,
        f"{NO_STATE}Failed to open snapshot file: No such file or directory (os error 2)",
    ),
    "no memory": (
        {"mem_backend": {"backend_path": "/no/memory", "backend_type": "File"}},
        os.stat,
        f"{NOT_RESTORED}Failed to load guest memory: Error creating guest memory from file: "
        "Failed to load guest memory: No such file or directory (os error 2)",
    ),
    "another interface": (
        {"network_overrides": [{"iface_id": "eth9", "host_dev_name": "tap9"}]},
        os.stat,
        f"{NO_STATE}Unknown Network Device.",
    ),
    "a state cut short": ({}, cut, "Failed to load snapshot state from file: "),
    "a memory cut short": (
        {},
        lambda path: os.truncate(path.replace("state", "memory"), 1 << 20),
        "Total sum of memory regions exceeds largest possible file offset",
    ),
}


@pytest.mark.parametrize(("change", "harm", "fault"), FAILURES.values(), ids=FAILURES)
def test_a_failed_load_is_answered_and_ends_the_process(
    saved: dict[str, str],
    fresh: SimulatedMonitor,
    change: dict[str, object],
    harm: Callable[[str], object],
    fault: str,
) -> None:
    harm(saved["snapshot_path"])
    call = Caller(fresh.socket_path)
    reply = call("PUT", "/snapshot/load", load(saved) | change)
    assert reply.status == 400
    assert fault in reply.fault
    assert fresh.exit_code == 1
    with pytest.raises(ConnectionRefusedError):
        call("GET", "/")


def test_a_snapshot_without_a_vsock_has_none_to_move(
    call: Caller, kernel: str, files: dict[str, str], fresh: SimulatedMonitor
) -> None:
    call.accepted("PUT", "/boot-source", {"kernel_image_path": kernel})
    call.accepted("PUT", "/actions", {"action_type": "InstanceStart"})
    call.accepted("PATCH", "/vm", {"state": "Paused"})
    call.accepted("PUT", "/snapshot/create", files)
    body = load(files, vsock_override={"uds_path": "v"})
    assert Caller(fresh.socket_path)("PUT", "/snapshot/load", body).fault == (
        f"{NO_STATE}Unknown Vsock Device."
    )


def test_a_vsock_path_that_is_taken_cannot_be_restored(
    paused: Caller, files: dict[str, str], fresh: SimulatedMonitor
) -> None:
    paused.accepted("PUT", "/snapshot/create", files)
    fault = Caller(fresh.socket_path)("PUT", "/snapshot/load", load(files)).fault
    assert "Error binding to the host-side Unix socket: Address already in use" in fault


@pytest.mark.parametrize("what", ["snapshot_path", "mem_file_path"])
def test_a_pipe_blocks_nobody(
    paused: Caller, files: dict[str, str], fresh: SimulatedMonitor, folder: Path, what: str
) -> None:
    os.mkfifo(folder / "pipe")
    named = files | {what: str(folder / "pipe")}
    assert paused("PUT", "/snapshot/create", named).status == 400
    assert Caller(fresh.socket_path)("PUT", "/snapshot/load", load(named)).status == 400
