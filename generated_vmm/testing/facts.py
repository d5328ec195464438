"""How the monitor treats bodies beyond the description, measured on 1.16.1.

Keys are `Schema.field`. A newer description needs no entry here: fields that are not listed are
treated as described, and listed fields that are not described are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

IGNORES_UNKNOWN: Final = frozenset(
    {
        "BalloonStartCmd", "CpuidLeafModifier", "CpuidRegisterModifier", "Metrics", "MsrModifier",
        "NetworkOverride", "TokenBucket", "VsockOverride",
    }
)  # fmt: skip
"""Objects that may have unknown members."""

NOT_ON_X86: Final = frozenset(
    {"CpuConfig.reg_modifiers", "CpuConfig.vcpu_features", "CpuTemplate.V1N1"}
)
"""Members and values that only an aarch64 monitor knows."""

BITS: Final[Mapping[str, int]] = {
    "amount_mib": 32, "flags": 32, "guest_cid": 32, "mtu": 16, "stats_polling_interval_s": 16,
    "vcpu_count": 8,
}  # fmt: skip
"""The width of unsigned integers by field name; the others have 64 bits."""

OWN_RANGE: Final = frozenset(
    {
        "MachineConfiguration.vcpu_count", "PartialMachineConfiguration.vcpu_count",
        "MemoryHotplugConfig.block_size_mib", "MemoryHotplugConfig.slot_size_mib",
        "NetworkInterface.mtu", "Vsock.guest_cid",
    }
)  # fmt: skip
"""Fields whose described range is checked by a state rule, or not at all."""

NULLABLE: Final = frozenset({"Drive.is_read_only", "Logger.show_level", "Logger.show_log_origin"})
"""Flags that may be null; those of a PATCH body may be as well."""

DEFAULTS: Final[Mapping[str, bool | int | str]] = {
    "Balloon.stats_polling_interval_s": 0,
    "BalloonStartCmd.acknowledge_on_stop": True,
    "Drive.cache_type": "Unsafe",
    "MachineConfiguration.huge_pages": "None",
    "MemoryHotplugConfig.block_size_mib": 2,
    "MemoryHotplugConfig.slot_size_mib": 128,
    "MmdsConfig.version": "V1",
    "SnapshotCreateParams.snapshot_type": "Full",
}
"""Fields that have a value when absent, and so may not be null."""

_OCTET: Final = r"(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_NUMBER: Final = (
    r"0b0*[01]{1,32}|0x0*[0-9A-Fa-f]{1,8}",
    "Failed to parse string [{}] as a number for CPU template",
)
_BITMAP: Final = "Failed to parse string [{}] as a bitmap"

FORMATS: Final[Mapping[str, tuple[str, str]]] = {
    "CpuConfig.kvm_capabilities": (r"!?\+?0*[0-9]{1,10}", "Failed to parse string [{}]"),
    "CpuidLeafModifier.leaf": _NUMBER,
    "CpuidLeafModifier.subleaf": _NUMBER,
    "CpuidRegisterModifier.bitmap": (r"(0b)?_*([x01]_*){0,32}", _BITMAP),
    "CpuidRegisterModifier.register": (r"e[abcd]x", "Invalid CPUID register."),
    "Logger.level": (r"(?i)off|trace|debug|info|warn|warning|error", "Invalid LevelFilter"),
    "MmdsConfig.ipv4_address": (rf"{_OCTET}(\.{_OCTET}){{3}}", "invalid IPv4 address syntax"),
    "MsrModifier.addr": _NUMBER,
    "MsrModifier.bitmap": (r"(0b)?_*([x01]_*){0,64}", _BITMAP),
    "NetworkInterface.guest_mac": (
        r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}",
        "The provided MAC address is invalid.",
    ),
}
"""Strings that the monitor parses: a pattern, and its text if the pattern does not match."""

LOWERED: Final = frozenset({"Logger.level", "NetworkInterface.guest_mac"})
"""Strings that the monitor stores in lower case."""

REQUIRED_ORDER: Final[Mapping[str, tuple[str, ...]]] = {
    "MachineConfiguration": ("vcpu_count", "mem_size_mib"),
    "MemoryBackend": ("backend_path", "backend_type"),
    "NetworkInterface": ("iface_id", "host_dev_name"),
    "SnapshotCreateParams": ("snapshot_path", "mem_file_path"),
    "TokenBucket": ("size", "refill_time"),
}
"""The order in which missing members are reported, if it is not the described order."""
