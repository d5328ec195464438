"""What the monitor does with bodies and the description does not say, measured on 1.16.1.

Keys are `Schema.field`. A newer description needs nothing here: what is not listed is taken as
described.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from generated_vmm.testing.bodies import strings
from generated_vmm.testing.description import Json

IGNORES_UNKNOWN: Final = frozenset(
    {
        "BalloonStartCmd",
        "CpuidLeafModifier",
        "CpuidRegisterModifier",
        "Metrics",
        "MsrModifier",
        "NetworkOverride",
        "TokenBucket",
        "VsockOverride",
    }
)
"""Objects whose unknown members are no fault."""

NOT_ON_X86: Final = frozenset(
    {"CpuConfig.reg_modifiers", "CpuConfig.vcpu_features", "CpuTemplate.V1N1"}
)
"""Members and values that only an aarch64 monitor knows."""

BITS: Final[Mapping[str, int]] = {
    "amount_mib": 32,
    "flags": 32,
    "guest_cid": 32,
    "mtu": 16,
    "stats_polling_interval_s": 16,
    "vcpu_count": 8,
}
"""The width of unsigned integers by field name; the others have 64 bits."""

OWN_RANGE: Final = frozenset(
    {
        "MachineConfiguration.vcpu_count",
        "MemoryHotplugConfig.block_size_mib",
        "MemoryHotplugConfig.slot_size_mib",
        "NetworkInterface.mtu",
        "PartialMachineConfiguration.vcpu_count",
        "Vsock.guest_cid",
    }
)
"""Fields whose described range is left to a state rule, or is not checked at all."""

NULLABLE: Final = frozenset({"Drive.is_read_only", "Logger.show_level", "Logger.show_log_origin"})
"""Flags that may be null; those of a PATCH body may be as well."""

DEFAULTS: Final[Mapping[str, Json]] = {
    "Balloon.stats_polling_interval_s": 0,
    "BalloonStartCmd.acknowledge_on_stop": True,
    "Drive.cache_type": "Unsafe",
    "MachineConfiguration.huge_pages": "None",
    "MemoryHotplugConfig.block_size_mib": 2,
    "MemoryHotplugConfig.slot_size_mib": 128,
    "MmdsConfig.version": "V1",
    "SnapshotCreateParams.snapshot_type": "Full",
}
"""Absent fields that have a value all the same, and so may not be null."""

FORMATS: Final[Mapping[str, Callable[[str], str]]] = {
    "CpuConfig.kvm_capabilities": strings.check_kvm_capability,
    "CpuidLeafModifier.leaf": strings.check_prefixed_number,
    "CpuidLeafModifier.subleaf": strings.check_prefixed_number,
    "CpuidRegisterModifier.bitmap": strings.bitmap_of(32),
    "CpuidRegisterModifier.register": strings.check_register,
    "Logger.level": strings.check_log_level,
    "MmdsConfig.ipv4_address": strings.check_ipv4,
    "MsrModifier.addr": strings.check_prefixed_number,
    "MsrModifier.bitmap": strings.bitmap_of(64),
    "NetworkInterface.guest_mac": strings.check_mac,
}
"""Strings that the monitor takes apart."""

REQUIRED_ORDER: Final[Mapping[str, tuple[str, ...]]] = {
    "MachineConfiguration": ("vcpu_count", "mem_size_mib"),
    "MemoryBackend": ("backend_path", "backend_type"),
    "NetworkInterface": ("iface_id", "host_dev_name"),
    "SnapshotCreateParams": ("snapshot_path", "mem_file_path"),
    "TokenBucket": ("size", "refill_time"),
}
"""Which of several missing members is named, where that is not the described order."""

PATH_STRINGS: Final = frozenset(
    {
        "backend_path",
        "log_path",
        "mem_file_path",
        "metrics_path",
        "serial_out_path",
        "snapshot_path",
    }
)
"""Fields that hold a `path string` in the monitor's words, the others `a string`."""
