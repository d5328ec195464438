"""The request bodies about the microVM itself, one class each, kept by hand apart from the client.

Field names, order, widths and defaults are those of the configuration structs of Firecracker 1.16.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from generated_vmm.testing.bodies.devices import TokenBucket
from generated_vmm.testing.bodies.strings import (
    check_bitmap,
    check_kvm_capability,
    check_log_level,
    check_prefixed_number,
    check_register,
)
from generated_vmm.testing.json.structs import U8, U32, HostPath, Parsed, Struct, Usize

CpuTemplate: TypeAlias = Literal["C3", "T2", "T2S", "T2CL", "T2A", "None"]
HugePages: TypeAlias = Literal["None", "2M"]
LogLevel: TypeAlias = Annotated[str, Parsed(check_log_level)]
Register: TypeAlias = Annotated[str, Parsed(check_register)]
Bitmap: TypeAlias = Annotated[str, Parsed(check_bitmap)]
HexU32: TypeAlias = Annotated[str, Parsed(check_prefixed_number)]
KvmCapability: TypeAlias = Annotated[str, Parsed(check_kvm_capability)]


@dataclass(frozen=True, kw_only=True)
class Action(Struct, name="ActionBody"):
    """PUT /actions."""

    action_type: Literal["FlushMetrics", "InstanceStart", "SendCtrlAltDel"]


@dataclass(frozen=True, kw_only=True)
class Vm(Struct, name="Vm"):
    """PATCH /vm."""

    state: Literal["Paused", "Resumed"]


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
class CpuidRegister(Struct, name="CpuidRegisterModifier", ignores_unknown=True):
    """Bits of one register of a CPUID leaf."""

    register: Register
    bitmap: Bitmap


@dataclass(frozen=True, kw_only=True)
class CpuidLeaf(Struct, name="CpuidLeafModifier", ignores_unknown=True):
    """One leaf of CPUID."""

    leaf: HexU32
    subleaf: HexU32
    flags: U32
    modifiers: tuple[CpuidRegister, ...]


@dataclass(frozen=True, kw_only=True)
class Msr(Struct, name="RegisterModifier", ignores_unknown=True):
    """Bits of one model specific register."""

    addr: HexU32
    bitmap: Bitmap


@dataclass(frozen=True, kw_only=True)
class CpuConfig(Struct, name="CustomCpuTemplate"):
    """PUT /cpu-config, as an x86_64 monitor takes it."""

    kvm_capabilities: tuple[KvmCapability, ...] = ()
    cpuid_modifiers: tuple[CpuidLeaf, ...] = ()
    msr_modifiers: tuple[Msr, ...] = ()


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


@dataclass(frozen=True, kw_only=True)
class Serial(Struct, name="SerialConfig"):
    """PUT /serial."""

    serial_out_path: HostPath | None = None
    rate_limiter: TokenBucket | None = None


@dataclass(frozen=True, kw_only=True)
class MemoryBackend(Struct, name="MemBackendConfig"):
    """Where the memory of a snapshot comes from."""

    backend_path: HostPath
    backend_type: Literal["File", "Uffd"]


@dataclass(frozen=True, kw_only=True)
class NetworkOverride(Struct, name="NetworkOverride", ignores_unknown=True):
    """Another tap device for an interface of the snapshot."""

    iface_id: str
    host_dev_name: str


@dataclass(frozen=True, kw_only=True)
class VsockOverride(Struct, name="VsockOverride", ignores_unknown=True):
    """Another socket path for the vsock of the snapshot."""

    uds_path: str


@dataclass(frozen=True, kw_only=True)
class SnapshotCreate(Struct, name="CreateSnapshotParams"):
    """PUT /snapshot/create."""

    snapshot_type: Literal["Diff", "Full"] = "Full"
    snapshot_path: HostPath
    mem_file_path: HostPath


@dataclass(frozen=True, kw_only=True)
class SnapshotLoad(Struct, name="LoadSnapshotConfig"):
    """PUT /snapshot/load."""

    snapshot_path: HostPath
    mem_file_path: HostPath | None = None
    mem_backend: MemoryBackend | None = None
    enable_diff_snapshots: bool = False
    track_dirty_pages: bool = False
    resume_vm: bool = False
    network_overrides: tuple[NetworkOverride, ...] = ()
    vsock_override: VsockOverride | None = None
    clock_realtime: bool = False
