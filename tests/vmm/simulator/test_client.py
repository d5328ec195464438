"""The client against a simulated monitor: what no single call shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from generated_vmm import VmmClient, VmmDeprecationWarning
from generated_vmm.testing import SimulatedMonitor
from tests.vmm.simulator.conftest import MakeMonitor


def test_a_vsock_is_connected_as_soon_as_the_guest_listens(
    make_monitor: MakeMonitor, folder: Path
) -> None:
    monitor = make_monitor(check_files=False)
    with VmmClient(monitor.socket_path) as vm:
        vm.vsock.set(guest_cid=3, uds_path=str(folder / "vsock"))
        vm.boot_source.set(kernel_image_path="/k")
        vm.action("InstanceStart")
        monitor.guest.listen(52)
        with vm.connect_vsock(52) as connection:
            connection.sendall(b"hello")
            assert connection.recv(5) == b"hello"


def test_the_client_hears_of_deprecated_fields(monitor: SimulatedMonitor) -> None:
    with VmmClient(monitor.socket_path) as vm, pytest.warns(VmmDeprecationWarning):
        vm.machine_config.set(vcpu_count=1, mem_size_mib=128, cpu_template="None")
