"""Every operation of the monitor: method and path, how its body is read, its phase, its rule."""

from __future__ import annotations

from typing import Final

from generated_vmm.testing.api.operations import (
    Operation,
    Operations,
    When,
    by_id,
    with_body,
    with_json,
    without_body,
)
from generated_vmm.testing.bodies import devices
from generated_vmm.testing.bodies import machine as bodies
from generated_vmm.testing.machine import Fault
from generated_vmm.testing.rules import (
    balloon,
    boot,
    drives,
    memory_hotplug,
    mmds,
    network,
    outlets,
    pmem,
    snapshots,
)


def _has_template(body: bodies.MachineConfig | bodies.MachineConfigUpdate) -> bool:
    return body.cpu_template is not None


def _refuse_empty(body: bodies.MachineConfigUpdate) -> None:
    if body == bodies.MachineConfigUpdate():
        raise Fault("Empty PATCH request.")


def _names_memory_file(body: bodies.SnapshotLoad) -> bool:
    return body.mem_file_path is not None or body.enable_diff_snapshots


_MACHINE: Final[Operations] = {
    ("GET", ""): Operation(without_body(boot.describe), When.ALWAYS),
    ("GET", "version"): Operation(without_body(boot.get_version), When.ALWAYS),
    ("GET", "vm/config"): Operation(without_body(boot.get_full_config), When.ALWAYS),
    ("PATCH", "vm"): Operation(with_body(bodies.Vm, boot.patch_vm), When.AFTER),
    # The body of an action decides for which phase it is.
    ("PUT", "actions"): Operation(with_body(bodies.Action, boot.act), When.ALWAYS),
    ("PUT", "boot-source"): Operation(
        with_body(bodies.BootSource, boot.put_boot_source), When.BEFORE, boot_path=True
    ),
    ("GET", "machine-config"): Operation(without_body(boot.get_machine_config), When.ALWAYS),
    ("PUT", "machine-config"): Operation(
        with_body(bodies.MachineConfig, boot.put_machine_config, deprecated=_has_template),
        When.BEFORE,
        boot_path=True,
    ),
    ("PATCH", "machine-config"): Operation(
        with_body(
            bodies.MachineConfigUpdate,
            boot.patch_machine_config,
            check=_refuse_empty,
            deprecated=_has_template,
        ),
        When.BEFORE,
        boot_path=True,
    ),
    ("PUT", "cpu-config"): Operation(with_body(bodies.CpuConfig, boot.put_cpu_config), When.BEFORE),
    ("PUT", "logger"): Operation(with_body(bodies.Logger, outlets.put_logger), When.BEFORE),
    ("PUT", "metrics"): Operation(with_body(bodies.Metrics, outlets.put_metrics), When.BEFORE),
    ("PUT", "serial"): Operation(with_body(bodies.Serial, outlets.put_serial), When.BEFORE),
    ("PUT", "snapshot/create"): Operation(
        with_body(bodies.SnapshotCreate, snapshots.create_snapshot), When.AFTER
    ),
    ("PUT", "snapshot/load"): Operation(
        with_body(
            bodies.SnapshotLoad,
            snapshots.load_snapshot,
            check=snapshots.require_one_memory,
            deprecated=_names_memory_file,
        ),
        When.BEFORE,
    ),
}

# PUT is for both phases where a device can be plugged in while the guest runs.
_NAMED_DEVICES: Final[Operations] = {
    ("PUT", "drives/{id}"): Operation(
        with_body(devices.Drive, drives.put_drive, id_field="drive_id"),
        When.ALWAYS,
        boot_path=True,
    ),
    ("PATCH", "drives/{id}"): Operation(
        with_body(devices.DriveUpdate, drives.patch_drive, id_field="drive_id"), When.AFTER
    ),
    ("DELETE", "drives/{id}"): Operation(by_id(drives.delete_drive), When.AFTER),
    ("PUT", "pmem/{id}"): Operation(
        with_body(devices.Pmem, pmem.put_pmem, id_field="id"), When.ALWAYS, boot_path=True
    ),
    ("PATCH", "pmem/{id}"): Operation(
        with_body(devices.PmemUpdate, pmem.patch_pmem, id_field="id"), When.AFTER
    ),
    ("DELETE", "pmem/{id}"): Operation(by_id(pmem.delete_pmem), When.AFTER),
    ("PUT", "network-interfaces/{id}"): Operation(
        with_body(devices.NetworkInterface, network.put_network_interface, id_field="iface_id"),
        When.ALWAYS,
        boot_path=True,
    ),
    ("PATCH", "network-interfaces/{id}"): Operation(
        with_body(
            devices.NetworkInterfaceUpdate, network.patch_network_interface, id_field="iface_id"
        ),
        When.AFTER,
    ),
    ("DELETE", "network-interfaces/{id}"): Operation(
        by_id(network.delete_network_interface), When.AFTER
    ),
}

_SINGLE_DEVICES: Final[Operations] = {
    ("PUT", "vsock"): Operation(
        with_body(
            devices.Vsock, outlets.put_vsock, deprecated=lambda body: body.vsock_id is not None
        ),
        When.BEFORE,
        boot_path=True,
    ),
    ("PUT", "entropy"): Operation(
        with_body(devices.Entropy, outlets.put_entropy), When.BEFORE, boot_path=True
    ),
    ("GET", "mmds"): Operation(without_body(mmds.get_mmds), When.ALWAYS),
    ("PUT", "mmds"): Operation(with_json(mmds.put_mmds), When.ALWAYS),
    ("PATCH", "mmds"): Operation(with_json(mmds.patch_mmds), When.ALWAYS),
    ("PUT", "mmds/config"): Operation(
        with_body(
            devices.MmdsConfig, mmds.put_mmds_config, deprecated=lambda body: body.version == "V1"
        ),
        When.BEFORE,
        boot_path=True,
    ),
    ("GET", "balloon"): Operation(without_body(balloon.get_balloon), When.ALWAYS),
    ("PUT", "balloon"): Operation(
        with_body(devices.Balloon, balloon.put_balloon), When.BEFORE, boot_path=True
    ),
    ("PATCH", "balloon"): Operation(
        with_body(devices.BalloonUpdate, balloon.patch_balloon), When.AFTER
    ),
    ("GET", "balloon/statistics"): Operation(without_body(balloon.get_statistics), When.AFTER),
    ("PATCH", "balloon/statistics"): Operation(
        with_body(devices.BalloonStatsUpdate, balloon.patch_statistics), When.AFTER
    ),
    ("PATCH", "balloon/hinting/start"): Operation(
        with_body(devices.BalloonHinting, balloon.start_hinting), When.AFTER
    ),
    ("GET", "balloon/hinting/status"): Operation(without_body(balloon.get_hinting), When.AFTER),
    ("PATCH", "balloon/hinting/stop"): Operation(without_body(balloon.stop_hinting), When.AFTER),
    ("GET", "hotplug/memory"): Operation(
        without_body(memory_hotplug.get_memory_hotplug), When.AFTER
    ),
    ("PUT", "hotplug/memory"): Operation(
        with_body(devices.MemoryHotplug, memory_hotplug.put_memory_hotplug),
        When.BEFORE,
        boot_path=True,
    ),
    ("PATCH", "hotplug/memory"): Operation(
        with_body(devices.MemoryHotplugUpdate, memory_hotplug.patch_memory_hotplug), When.AFTER
    ),
}

OPERATIONS: Final[Operations] = {**_MACHINE, **_NAMED_DEVICES, **_SINGLE_DEVICES}
