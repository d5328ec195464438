"""The request bodies of Firecracker 1.16, one class each, kept by hand apart from the client.

Field names, order, widths and defaults are those of the monitor's configuration structs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from .body_strings import check_ipv4, check_log_level, check_mac
from .decoding import U8, U16, U32, U64, HostPath, Parsed, Struct, Usize

CpuTemplate: TypeAlias = Literal["C3", "T2", "T2S", "T2CL", "T2A", "None"]
HugePages: TypeAlias = Literal["None", "2M"]
Ipv4: TypeAlias = Annotated[str, Parsed(check_ipv4, expected="IPv4 address", early=True)]
Mac: TypeAlias = Annotated[str, Parsed(check_mac)]
LogLevel: TypeAlias = Annotated[str, Parsed(check_log_level)]


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
class Action(Struct, name="ActionBody"):
    """PUT /actions."""

    action_type: Literal["FlushMetrics", "InstanceStart", "SendCtrlAltDel"]


@dataclass(frozen=True, kw_only=True)
class BootSource(Struct, name="BootSourceConfig"):
    """PUT /boot-source."""

    kernel_image_path: str
    initrd_path: str | None = None
    boot_args: str | None = None


@dataclass(frozen=True, kw_only=True)
class MachineConfig(Struct, name="MachineConfig"):
    """PUT /machine-config."""

    vcpu_count: U8
    mem_size_mib: Usize
    smt: bool = False
    cpu_template: CpuTemplate | None = None
    track_dirty_pages: bool = False
    huge_pages: HugePages = "None"


@dataclass(frozen=True, kw_only=True)
class MachineConfigUpdate(Struct, name="MachineConfigUpdate"):
    """PATCH /machine-config."""

    vcpu_count: U8 | None = None
    mem_size_mib: Usize | None = None
    smt: bool | None = None
    cpu_template: CpuTemplate | None = None
    track_dirty_pages: bool | None = None
    huge_pages: HugePages | None = None


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
class Vm(Struct, name="Vm"):
    """PATCH /vm."""

    state: Literal["Paused", "Resumed"]


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
class Serial(Struct, name="SerialConfig"):
    """PUT /serial."""

    serial_out_path: HostPath | None = None
    rate_limiter: TokenBucket | None = None


@dataclass(frozen=True, kw_only=True)
class Logger(Struct, name="LoggerConfig"):
    """PUT /logger."""

    log_path: HostPath | None = None
    level: LogLevel | None = None
    show_level: bool | None = None
    show_log_origin: bool | None = None
    module: str | None = None


@dataclass(frozen=True, kw_only=True)
class Metrics(Struct, name="MetricsConfig", ignores_unknown=True):
    """PUT /metrics."""

    metrics_path: HostPath
