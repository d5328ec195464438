"""What has been configured: one frozen value, shown by /vm/config and kept in a snapshot."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

from generated_vmm.testing.bodies import devices
from generated_vmm.testing.bodies import machine as bodies
from generated_vmm.testing.json.reader import Json
from generated_vmm.testing.json.structs import Struct

NO_BOOT_SOURCE: Final = bodies.BootSource(kernel_image_path="")
SMALLEST_MACHINE: Final = bodies.MachineConfig(vcpu_count=1, mem_size_mib=128)


@dataclass(frozen=True, kw_only=True)
class Resources(Struct, name="Resources"):
    """Every setting of the machine and its devices; the MMDS data is not part of it."""

    balloon: devices.Balloon | None = None
    drives: tuple[devices.Drive, ...] = ()
    boot_source: bodies.BootSource = NO_BOOT_SOURCE
    machine_config: bodies.MachineConfig = SMALLEST_MACHINE
    mmds_config: devices.MmdsConfig | None = None
    network_interfaces: tuple[devices.NetworkInterface, ...] = ()
    vsock: devices.Vsock | None = None
    entropy: devices.Entropy | None = None
    pmem: tuple[devices.Pmem, ...] = ()
    memory_hotplug: devices.MemoryHotplug | None = None


def machine_config_json(resources: Resources) -> dict[str, Json]:
    """GET /machine-config: `cpu_template` only when a static one is set."""
    config = asdict(resources.machine_config)
    if config["cpu_template"] is None:
        del config["cpu_template"]
    return config


def vsock_json(resources: Resources) -> Json:
    """The vsock device; its deprecated id is never shown."""
    if resources.vsock is None:
        return None
    return {"guest_cid": resources.vsock.guest_cid, "uds_path": resources.vsock.uds_path}


def full_config_json(resources: Resources) -> Json:
    """GET /vm/config: null for what is not there; CPU config, logger and metrics never show."""
    plain = asdict(resources)
    return {
        "balloon": plain["balloon"],
        "drives": plain["drives"],
        "boot-source": plain["boot_source"],
        "cpu-config": None,
        "logger": None,
        "machine-config": machine_config_json(resources),
        "metrics": None,
        "mmds-config": plain["mmds_config"],
        "network-interfaces": plain["network_interfaces"],
        "vsock": vsock_json(resources),
        "entropy": plain["entropy"],
        "pmem": plain["pmem"],
        "memory-hotplug": plain["memory_hotplug"],
    }
