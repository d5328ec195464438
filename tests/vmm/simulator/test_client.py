"""Every member of the client against a monitor that shares no code with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from generated_vmm import (
    API_VERSION,
    CpuidLeafModifier,
    CpuidRegisterModifier,
    MsrModifier,
    RateLimiter,
    TokenBucket,
    VmmClient,
    VmmDeprecationWarning,
)
from generated_vmm.testing import SimulatedMonitor
from generated_vmm.testing.description import CURRENT, Operation
from generated_vmm.testing.http import Request
from generated_vmm.testing.operations import find_operation
from generated_vmm.testing.rule import ACTIONS, CHECKS
from tests.vmm.simulator.conftest import MakeMonitor

BUCKET = TokenBucket(size=1000, refill_time=100, one_time_burst=5)
LIMITER = RateLimiter(ops=BUCKET, bandwidth=BUCKET)
CPUID_LEAF = CpuidLeafModifier(
    leaf="0x1",
    subleaf="0x0",
    flags=0,
    modifiers=[CpuidRegisterModifier(register_="eax", bitmap="0b1x")],
)


def configure(vm: VmmClient, folder: Path) -> None:
    """Everything that is set before the start, with as many fields as there are."""
    vm.logger.set(log_path="/log", level="Debug", show_level=True, module="api")
    vm.metrics.set(metrics_path="/metrics")
    vm.serial.set({"serial_out_path": "/serial", "rate_limiter": BUCKET})
    vm.cpu_config.set(
        kvm_capabilities=["!5"],
        cpuid_modifiers=[CPUID_LEAF],
        msr_modifiers=[MsrModifier(addr="0x10", bitmap="0b1x")],
    )
    vm.boot_source.set(kernel_image_path="/k", initrd_path="/i", boot_args="console=ttyS0")
    vm.machine_config.set(vcpu_count=2, mem_size_mib=512, smt=True, huge_pages="2M")
    vm.machine_config.update(track_dirty_pages=True)
    vm.drive("disk").set(
        is_root_device=True, path_on_host="/disk", partuuid="x", rate_limiter=LIMITER
    )
    vm.drive("vub").set(is_root_device=False, socket="/vub.sock")
    vm.pmem("p").set({"path_on_host": "/p", "read_only": True, "rate_limiter": LIMITER})
    vm.network_interface("eth0").set(
        {
            "host_dev_name": "tap0",
            "guest_mac": "06:00:00:00:00:01",
            "mtu": 1500,
            "rx_rate_limiter": LIMITER,
        }
    )
    vm.network_interface("eth1").set(host_dev_name="tap1")
    vm.mmds.config.set(version="V2", network_interfaces=["eth0"], ipv4_address="169.254.1.1")
    vm.mmds.set({"a": {"b": 1}})
    vm.balloon.set(
        {
            "amount_mib": 8,
            "deflate_on_oom": True,
            "stats_polling_interval_s": 1,
            "free_page_hinting": True,
        }
    )
    vm.entropy.set(rate_limiter=LIMITER)
    vm.hotplug_memory.set(total_size_mib=1024, slot_size_mib=256, block_size_mib=4)
    vm.vsock.set(guest_cid=3, uds_path=str(folder / "vsock"))


def control(vm: VmmClient) -> None:
    """Everything that is for a guest that runs."""
    vm.drive("disk").update(path_on_host="/other")
    vm.drive("more").set(is_root_device=False, path_on_host="/more")
    vm.drive("more").delete()
    vm.pmem("p").update(rate_limiter=LIMITER)
    vm.pmem("p").delete()
    vm.network_interface("eth0").update(tx_rate_limiter=LIMITER)
    vm.network_interface("eth1").delete()
    vm.mmds.update({"a": {"b": None}})
    vm.balloon.update(amount_mib=16)
    vm.balloon.stats.update(stats_polling_interval_s=2)
    vm.balloon.hinting.start(acknowledge_on_stop=False)
    vm.hotplug_memory.update(requested_size_mib=256)
    vm.action("FlushMetrics")


def test_every_operation_is_accepted_as_the_client_sends_it(
    make_monitor: MakeMonitor, folder: Path
) -> None:
    monitor = make_monitor(check_files=False, enable_pci=True)
    saved = {"snapshot_path": str(folder / "s"), "mem_file_path": str(folder / "m")}
    with VmmClient(monitor.socket_path) as vm:
        configure(vm, folder)
        vm.action("InstanceStart")
        control(vm)
        assert vm.get_version().firecracker_version == API_VERSION
        assert vm.machine_config.get().vcpu_count == 2
        assert vm.mmds.get() == {"a": {}}
        assert vm.balloon.get().amount_mib == 16
        assert vm.balloon.stats.get().target_mib == 16
        assert vm.balloon.hinting.status().host_cmd == 2
        assert vm.hotplug_memory.get().plugged_size_mib == 256
        assert [drive.drive_id for drive in vm.vm_config.get().drives or []] == ["disk", "vub"]
        vm.balloon.hinting.stop()
        vm.vm.update(state="Paused")
        vm.snapshot.create(saved)
        assert vm.get_instance_info().state == "Paused"
    restored = restore(make_monitor("restored.socket", check_files=False), saved, folder)
    with_rules = {one for one in CURRENT.operations if one.endpoint in {**ACTIONS, **CHECKS}}
    assert reached(monitor) | reached(restored) >= with_rules
    assert {call.status for call in monitor.calls + restored.calls} == {200, 204}


def restore(monitor: SimulatedMonitor, saved: dict[str, str], folder: Path) -> SimulatedMonitor:
    with VmmClient(monitor.socket_path) as vm:
        vm.snapshot.load(
            {
                "snapshot_path": saved["snapshot_path"],
                "mem_backend": {"backend_path": saved["mem_file_path"], "backend_type": "File"},
                "vsock_override": {"uds_path": str(folder / "other")},
                "resume_vm": True,
            }
        )
        assert vm.get_instance_info().state == "Running"
    return monitor


def reached(monitor: SimulatedMonitor) -> set[Operation]:
    requests = (Request(call.method, call.path, call.body) for call in monitor.calls)
    return {find_operation(CURRENT, request)[0] for request in requests}


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
