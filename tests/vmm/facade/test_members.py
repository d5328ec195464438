"""Every member sends the request of its endpoint, sync and async alike."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from generated_vmm import VmmClient, VmmError
from tests.vmm.described import has
from tests.vmm.facade.conftest import Run
from tests.vmm.scripted import ScriptedServer

Sent = tuple[Callable[[VmmClient], object], str, object]

SETTERS: dict[str, Sent] = {
    "create_sync_action": (
        lambda vm: vm.create_sync_action(action_type="FlushMetrics"),
        "PUT /actions",
        {"action_type": "FlushMetrics"},
    ),
    "action": (
        lambda vm: vm.action("InstanceStart"),
        "PUT /actions",
        {"action_type": "InstanceStart"},
    ),
    "balloon.set": (
        lambda vm: vm.balloon.set(amount_mib=64, deflate_on_oom=True),
        "PUT /balloon",
        {"amount_mib": 64, "deflate_on_oom": True},
    ),
    "balloon.update": (
        lambda vm: vm.balloon.update(amount_mib=32),
        "PATCH /balloon",
        {"amount_mib": 32},
    ),
    "balloon.stats.update": (
        lambda vm: vm.balloon.stats.update(stats_polling_interval_s=5),
        "PATCH /balloon/statistics",
        {"stats_polling_interval_s": 5},
    ),
    "balloon.hinting.start": (
        lambda vm: vm.balloon.hinting.start(acknowledge_on_stop=False),
        "PATCH /balloon/hinting/start",
        {"acknowledge_on_stop": False},
    ),
    "balloon.hinting.start()": (
        lambda vm: vm.balloon.hinting.start(),
        "PATCH /balloon/hinting/start",
        None,
    ),
    "balloon.hinting.stop": (
        lambda vm: vm.balloon.hinting.stop(),
        "PATCH /balloon/hinting/stop",
        None,
    ),
    "boot_source.set": (
        lambda vm: vm.boot_source.set(kernel_image_path="/vmlinux", boot_args="quiet"),
        "PUT /boot-source",
        {"kernel_image_path": "/vmlinux", "boot_args": "quiet"},
    ),
    "cpu_config.set": (
        lambda vm: vm.cpu_config.set(kvm_capabilities=["!56"]),
        "PUT /cpu-config",
        {"kvm_capabilities": ["!56"]},
    ),
    "drive.set": (
        lambda vm: vm.drive("rootfs").set(path_on_host="/rootfs", is_root_device=True),
        "PUT /drives/rootfs",
        {"drive_id": "rootfs", "path_on_host": "/rootfs", "is_root_device": True},
    ),
    "drive.update": (
        lambda vm: vm.drive("rootfs").update(path_on_host="/other"),
        "PATCH /drives/rootfs",
        {"drive_id": "rootfs", "path_on_host": "/other"},
    ),
    "drive.delete": (lambda vm: vm.drive("data").delete(), "DELETE /drives/data", None),
    "entropy.set": (lambda vm: vm.entropy.set(), "PUT /entropy", {}),
    "hotplug_memory.set": (
        lambda vm: vm.hotplug_memory.set(total_size_mib=1024),
        "PUT /hotplug/memory",
        {"total_size_mib": 1024},
    ),
    "hotplug_memory.update": (
        lambda vm: vm.hotplug_memory.update(requested_size_mib=512),
        "PATCH /hotplug/memory",
        {"requested_size_mib": 512},
    ),
    "logger.set": (
        lambda vm: vm.logger.set(log_path="/log", level="Off"),
        "PUT /logger",
        {"log_path": "/log", "level": "Off"},
    ),
    "machine_config.set": (
        lambda vm: vm.machine_config.set(vcpu_count=2, mem_size_mib=512),
        "PUT /machine-config",
        {"vcpu_count": 2, "mem_size_mib": 512},
    ),
    "machine_config.update": (
        lambda vm: vm.machine_config.update(huge_pages="2M"),
        "PATCH /machine-config",
        {"huge_pages": "2M"},
    ),
    "metrics.set": (
        lambda vm: vm.metrics.set(metrics_path="/metrics"),
        "PUT /metrics",
        {"metrics_path": "/metrics"},
    ),
    "mmds.set": (
        lambda vm: vm.mmds.set({"latest": {"a": None}}),
        "PUT /mmds",
        {"latest": {"a": None}},
    ),
    "mmds.update": (
        lambda vm: vm.mmds.update({"latest": {"a": [1]}}),
        "PATCH /mmds",
        {"latest": {"a": [1]}},
    ),
    "mmds.config.set": (
        lambda vm: vm.mmds.config.set(network_interfaces=["eth0"], version="V2"),
        "PUT /mmds/config",
        {"network_interfaces": ["eth0"], "version": "V2"},
    ),
    "network_interface.set": (
        lambda vm: vm.network_interface("eth0").set(
            host_dev_name="tap0", guest_mac="02:00:00:00:00:01"
        ),
        "PUT /network-interfaces/eth0",
        {"iface_id": "eth0", "host_dev_name": "tap0", "guest_mac": "02:00:00:00:00:01"},
    ),
    "network_interface.update": (
        lambda vm: vm.network_interface("eth0").update(
            rx_rate_limiter={"ops": {"size": 10, "refill_time": 100}}
        ),
        "PATCH /network-interfaces/eth0",
        {"iface_id": "eth0", "rx_rate_limiter": {"ops": {"size": 10, "refill_time": 100}}},
    ),
    "network_interface.delete": (
        lambda vm: vm.network_interface("eth0").delete(),
        "DELETE /network-interfaces/eth0",
        None,
    ),
    "pmem.set": (
        lambda vm: vm.pmem("p0").set(path_on_host="/pmem", read_only=True),
        "PUT /pmem/p0",
        {"id": "p0", "path_on_host": "/pmem", "read_only": True},
    ),
    "pmem.update": (lambda vm: vm.pmem("p0").update(), "PATCH /pmem/p0", {"id": "p0"}),
    "pmem.delete": (lambda vm: vm.pmem("p0").delete(), "DELETE /pmem/p0", None),
    "serial.set": (
        lambda vm: vm.serial.set(serial_out_path="/console"),
        "PUT /serial",
        {"serial_out_path": "/console"},
    ),
    "snapshot.create": (
        lambda vm: vm.snapshot.create(mem_file_path="/mem", snapshot_path="/state"),
        "PUT /snapshot/create",
        {"mem_file_path": "/mem", "snapshot_path": "/state"},
    ),
    "snapshot.load": (
        lambda vm: vm.snapshot.load(
            snapshot_path="/state", mem_backend={"backend_type": "File", "backend_path": "/mem"}
        ),
        "PUT /snapshot/load",
        {
            "snapshot_path": "/state",
            "mem_backend": {"backend_type": "File", "backend_path": "/mem"},
        },
    ),
    "vm.update": (lambda vm: vm.vm.update(state="Paused"), "PATCH /vm", {"state": "Paused"}),
    "pause": (lambda vm: vm.pause(), "PATCH /vm", {"state": "Paused"}),
    "resume": (lambda vm: vm.resume(), "PATCH /vm", {"state": "Resumed"}),
    "vsock.set": (
        lambda vm: vm.vsock.set(guest_cid=3, uds_path="/v.sock"),
        "PUT /vsock",
        {"guest_cid": 3, "uds_path": "/v.sock"},
    ),
}


@pytest.mark.parametrize(("call", "line", "body"), SETTERS.values(), ids=SETTERS)
def test_a_setter_sends_what_was_set_and_nothing_else(
    run: Run,
    accepting: ScriptedServer,
    call: Callable[[VmmClient], object],
    line: str,
    body: object,
) -> None:
    if has(line):
        assert run(call) is None
        assert accepting.sent() == [(line, body)]
    else:
        with pytest.raises(VmmError, match="needs monitor"):
            run(call)
        assert accepting.sent() == []
