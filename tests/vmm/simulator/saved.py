"""A guest that is paused, and the files of its snapshot."""

from __future__ import annotations

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
