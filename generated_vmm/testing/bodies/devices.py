"""The request bodies about devices, one class each, kept by hand apart from the client.

Field names, order, widths and defaults are those of the configuration structs of Firecracker 1.16.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from generated_vmm.testing.bodies.strings import check_ipv4, check_mac
from generated_vmm.testing.json.structs import U16, U32, U64, Parsed, Struct, Usize

Ipv4: TypeAlias = Annotated[str, Parsed(check_ipv4, expected="IPv4 address", early=True)]
Mac: TypeAlias = Annotated[str, Parsed(check_mac)]


@dataclass(frozen=True, kw_only=True)
class TokenBucket(Struct, name="TokenBucketConfig", ignores_unknown=True):
    """A limit that refills: `size` tokens every `refill_time` milliseconds; 0 switches it off."""

    size: U64
    one_time_burst: U64 | None = None
    refill_time: U64


@dataclass(frozen=True, kw_only=True)
class RateLimiter(Struct, name="RateLimiterConfig"):
    """Limits in bytes and in operations."""

    bandwidth: TokenBucket | None = None
    ops: TokenBucket | None = None


@dataclass(frozen=True, kw_only=True)
class Drive(Struct, name="BlockDeviceConfig"):
    """PUT /drives/{drive_id}."""

    drive_id: str
    partuuid: str | None = None
    is_root_device: bool
    cache_type: Literal["Unsafe", "Writeback"] = "Unsafe"
    is_read_only: bool | None = None
    path_on_host: str | None = None
    rate_limiter: RateLimiter | None = None
    io_engine: Literal["Sync", "Async"] | None = None
    socket: str | None = None


@dataclass(frozen=True, kw_only=True)
class DriveUpdate(Struct, name="BlockDeviceUpdateConfig"):
    """PATCH /drives/{drive_id}."""

    drive_id: str
    path_on_host: str | None = None
    rate_limiter: RateLimiter | None = None


@dataclass(frozen=True, kw_only=True)
class Pmem(Struct, name="PmemConfig"):
    """PUT /pmem/{id}."""

    id: str
    path_on_host: str
    root_device: bool = False
    read_only: bool = False
    rate_limiter: RateLimiter | None = None


@dataclass(frozen=True, kw_only=True)
class PmemUpdate(Struct, name="PmemDeviceUpdateConfig"):
    """PATCH /pmem/{id}."""

    id: str
    rate_limiter: RateLimiter | None = None


@dataclass(frozen=True, kw_only=True)
class NetworkInterface(Struct, name="NetworkInterfaceConfig"):
    """PUT /network-interfaces/{iface_id}."""

    iface_id: str
    host_dev_name: str
    guest_mac: Mac | None = None
    mtu: U16 | None = None
    rx_rate_limiter: RateLimiter | None = None
    tx_rate_limiter: RateLimiter | None = None


@dataclass(frozen=True, kw_only=True)
class NetworkInterfaceUpdate(Struct, name="NetworkInterfaceUpdateConfig"):
    """PATCH /network-interfaces/{iface_id}."""

    iface_id: str
    rx_rate_limiter: RateLimiter | None = None
    tx_rate_limiter: RateLimiter | None = None


@dataclass(frozen=True, kw_only=True)
class MmdsConfig(Struct, name="MmdsConfig"):
    """PUT /mmds/config."""

    version: Literal["V1", "V2"] = "V1"
    network_interfaces: tuple[str, ...]
    ipv4_address: Ipv4 | None = None
    imds_compat: bool = False


@dataclass(frozen=True, kw_only=True)
class Vsock(Struct, name="VsockDeviceConfig"):
    """PUT /vsock."""

    vsock_id: str | None = None
    guest_cid: U32
    uds_path: str


@dataclass(frozen=True, kw_only=True)
class Entropy(Struct, name="EntropyDeviceConfig"):
    """PUT /entropy."""

    rate_limiter: RateLimiter | None = None


@dataclass(frozen=True, kw_only=True)
class Balloon(Struct, name="BalloonDeviceConfig"):
    """PUT /balloon."""

    amount_mib: U32
    deflate_on_oom: bool
    stats_polling_interval_s: U16 = 0
    free_page_hinting: bool = False
    free_page_reporting: bool = False


@dataclass(frozen=True, kw_only=True)
class BalloonUpdate(Struct, name="BalloonUpdateConfig"):
    """PATCH /balloon."""

    amount_mib: U32


@dataclass(frozen=True, kw_only=True)
class BalloonStatsUpdate(Struct, name="BalloonUpdateStatsConfig"):
    """PATCH /balloon/statistics."""

    stats_polling_interval_s: U16


@dataclass(frozen=True, kw_only=True)
class BalloonHinting(Struct, name="StartHintingCmd", ignores_unknown=True):
    """PATCH /balloon/hinting/start."""

    acknowledge_on_stop: bool = True


@dataclass(frozen=True, kw_only=True)
class MemoryHotplug(Struct, name="MemoryHotplugConfig"):
    """PUT /hotplug/memory."""

    total_size_mib: Usize
    block_size_mib: Usize = 2
    slot_size_mib: Usize = 128


@dataclass(frozen=True, kw_only=True)
class MemoryHotplugUpdate(Struct, name="MemoryHotplugSizeUpdate"):
    """PATCH /hotplug/memory."""

    requested_size_mib: Usize
