"""The main job against the simulated monitor, on both clients."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from generated_vmm import VmmApiError, to_config_file
from generated_vmm.testing import SimulatedMonitor
from tests.vmm.facade.conftest import Run


@pytest.fixture
def monitor(socket_path: Path) -> Iterator[SimulatedMonitor]:
    with SimulatedMonitor(socket_path, check_files=False) as started:
        yield started


def test_configure_start_pause_resume(run: Run, monitor: SimulatedMonitor) -> None:
    assert run(lambda vm: vm.wait_until_ready()).state == "Not started"
    run(lambda vm: vm.boot_source.set(kernel_image_path="/vmlinux"))
    run(lambda vm: vm.drive("rootfs").set(path_on_host="/rootfs", is_root_device=True))
    run(lambda vm: vm.machine_config.set(vcpu_count=2, mem_size_mib=512))
    run(lambda vm: vm.action("InstanceStart"))
    assert run(lambda vm: vm.get_instance_info()).state == "Running"
    run(lambda vm: vm.pause())
    assert monitor.state == "Paused"
    run(lambda vm: vm.resume())
    assert monitor.state == "Running"


def test_a_snapshot_of_a_running_machine_is_refused_by_the_monitor(
    run: Run, monitor: SimulatedMonitor, tmp_path: Path
) -> None:
    paths = {"mem_file_path": str(tmp_path / "mem"), "snapshot_path": str(tmp_path / "state")}
    run(lambda vm: vm.boot("/vmlinux", "/rootfs"))
    with pytest.raises(VmmApiError, match="save/restore unavailable while running"):
        run(lambda vm: vm.snapshot.create(paths))
    run(lambda vm: vm.pause())
    run(lambda vm: vm.snapshot.create(paths))
    assert [call.path for call in monitor.calls].count("/snapshot/create") == 2


def test_the_whole_configuration_becomes_a_config_file(run: Run, monitor: SimulatedMonitor) -> None:
    run(lambda vm: vm.boot("/vmlinux", "/rootfs", {"vcpu_count": 2, "mem_size_mib": 512}))
    document = json.loads(to_config_file(run(lambda vm: vm.vm_config.get())))
    assert document["boot-source"]["kernel_image_path"] == "/vmlinux"
    assert document["drives"][0]["path_on_host"] == "/rootfs"
    assert document["machine-config"]["vcpu_count"] == 2
    assert None not in document.values()
