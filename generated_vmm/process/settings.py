"""The options for starting a monitor, their checks, and the command lines made of them.

Source for the jailer: its `--help` and docs/jailer.md, version 1.16.1.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Literal, Required, TypeAlias, TypedDict

from generated_vmm.transport import DEFAULT_MAX_BODY_BYTES

HostPath: TypeAlias = str | os.PathLike[str]
Mount: TypeAlias = tuple[str, str, list[str]]
Level: TypeAlias = Literal["Error", "Warning", "Info", "Debug", "Trace", "Off"]

# Arguments of the monitor under these names.
MONITOR_OPTIONS = (
    *("http_api_max_payload_size", "mmds_size_limit", "level", "module"),
    *("enable_pci", "boot_timer", "no_seccomp", "show_level", "show_log_origin"),
)
INSTANCE_ID = re.compile(r"[A-Za-z0-9-]{1,64}")


class CommonOptions(TypedDict, total=False):
    """The options of every monitor, all optional; `Settings` has their defaults."""

    socket_path: HostPath | None
    config_file: HostPath | None
    metadata: HostPath | None
    enable_pci: bool
    boot_timer: bool
    no_seccomp: bool
    seccomp_filter: HostPath | None
    http_api_max_payload_size: int | None
    mmds_size_limit: int | None
    log_path: HostPath | None
    level: Level | None
    module: str | None
    show_level: bool
    show_log_origin: bool
    metrics_path: HostPath | None
    serial_bytes: int
    env: Mapping[str, str] | None
    cwd: HostPath | None
    timeout: float
    grace: float
    detached: bool


class MonitorOptions(CommonOptions, total=False):
    """The options of a monitor without a jail."""

    id: str | None
    directory: HostPath | None


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The options of a monitor. Raises ValueError for a value that no monitor can start with."""

    id: str | None = None
    directory: HostPath | None = None
    socket_path: HostPath | None = None
    config_file: HostPath | None = None
    metadata: HostPath | None = None
    enable_pci: bool = False
    boot_timer: bool = False
    no_seccomp: bool = False
    seccomp_filter: HostPath | None = None
    http_api_max_payload_size: int | None = None
    mmds_size_limit: int | None = None
    log_path: HostPath | None = None
    level: Level | None = None
    module: str | None = None
    show_level: bool = False
    show_log_origin: bool = False
    metrics_path: HostPath | None = None
    serial_bytes: int = 262_144
    env: Mapping[str, str] | None = None
    cwd: HostPath | None = None
    timeout: float = 10.0
    grace: float = 5.0
    detached: bool = False

    def __post_init__(self) -> None:
        if self.id is not None:
            require_instance_id(self.id)
        if self.no_seccomp and self.seccomp_filter is not None:
            raise ValueError("no_seccomp and seccomp_filter exclude each other")
        for name in ("serial_bytes", "http_api_max_payload_size", "mmds_size_limit", "timeout"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} is {value}; it must be more than 0")
        if not self.grace >= 0:
            raise ValueError(f"grace is {self.grace}; it cannot be negative")
        for option in fields(self):
            value = getattr(self, option.name)
            if value == "":
                raise ValueError(f"{option.name} is empty")
            if option.type == "bool" and not isinstance(value, bool):
                raise ValueError(f"{option.name} is {value!r}; it must be True or False")

    @property
    def max_body_bytes(self) -> int:
        """The longest body that the monitor accepts."""
        return self.http_api_max_payload_size or DEFAULT_MAX_BODY_BYTES


def monitor_arguments(settings: Settings, paths: Mapping[str, str | None]) -> list[str]:
    """The command line of Firecracker after its name, without `--id`.

    `paths` are the paths among the options, as the monitor sees them. Source: the monitor's own
    `--help`, version 1.16.1.
    """
    return words_of({**paths, **{name: getattr(settings, name) for name in MONITOR_OPTIONS}})


def words_of(options: Mapping[str, object]) -> list[str]:
    """The words of a command line for options; those that are None or false are left out."""
    words = []
    for name, value in options.items():
        if value is not None and value is not False:
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return words


def without_environment(settings: object) -> dict[str, object]:
    """The options in a form for JSON, without the environment, which may contain secrets."""
    given = {name: value for name, value in vars(settings).items() if name != "env"}
    return {
        name: os.fspath(value) if isinstance(value, os.PathLike) else value
        for name, value in given.items()
    }


def require_instance_id(instance_id: str) -> None:
    """Raises ValueError unless the monitor accepts this as `--id`; otherwise it would abort."""
    if INSTANCE_ID.fullmatch(instance_id) is None:
        raise ValueError(f"id is {instance_id!r}; it must be 1 to 64 letters, digits and hyphens")


class JailedOptions(CommonOptions, total=False):
    """The options of a jailed monitor; `JailSettings` has their defaults."""

    id: Required[str]
    uid: Required[int]
    gid: Required[int]
    chroot_base_dir: HostPath
    netns: HostPath | None
    cgroups: Mapping[str, str]
    cgroup_version: int
    parent_cgroup: str | None
    resource_limits: Mapping[str, int]
    new_pid_ns: bool


@dataclass(frozen=True, kw_only=True)
class JailSettings(Settings):
    """The options of a jailed monitor. Raises ValueError for what the jailer would refuse."""

    id: str = field()  # without the default that it has for an unjailed monitor
    uid: int
    gid: int
    chroot_base_dir: HostPath = "/srv/jailer"
    netns: HostPath | None = None
    cgroups: Mapping[str, str] = field(default_factory=dict)
    cgroup_version: int = 2
    parent_cgroup: str | None = None
    resource_limits: Mapping[str, int] = field(default_factory=dict)
    new_pid_ns: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cgroup_version not in (1, 2):
            raise ValueError(f"cgroup_version is {self.cgroup_version}; it must be 1 or 2")
        if unknown := set(self.resource_limits) - {"fsize", "no-file"}:
            raise ValueError(f"resource_limits has {sorted(unknown)}; only fsize and no-file exist")
        for name in self.cgroups:
            if "." not in name or "/" in name:
                raise ValueError(f"cgroups has {name!r}; it must be a file such as cpu.weight")


def jailer_arguments(settings: JailSettings, exec_file: str) -> list[str]:
    """The command line of the jailer after its name, up to the monitor's own arguments."""
    has_cgroups = settings.cgroups or settings.parent_cgroup is not None
    words = words_of(
        {
            "id": settings.id,
            "exec_file": exec_file,
            "uid": settings.uid,
            "gid": settings.gid,
            "chroot_base_dir": os.path.abspath(settings.chroot_base_dir),
            "netns": absolute(settings.netns),
            "cgroup_version": settings.cgroup_version if has_cgroups else None,
            "parent_cgroup": settings.parent_cgroup,
            "new_pid_ns": settings.new_pid_ns,
        }
    )
    for name, value in settings.cgroups.items():
        words += ["--cgroup", f"{name}={value}"]
    for limit, most in settings.resource_limits.items():
        words += ["--resource-limit", f"{limit}={most}"]
    return [*words, "--"]


def absolute(path: HostPath | None) -> str | None:
    """The absolute path."""
    return None if path is None else os.path.abspath(path)


def cgroup_folders(settings: JailSettings, exec_name: str, mounts: Iterable[Mount]) -> list[str]:
    """The control groups that the jailer makes for a monitor, among these mounts."""
    parent = settings.parent_cgroup or exec_name
    if settings.cgroup_version == 2:
        wanted = bool(settings.cgroups or settings.parent_cgroup)
        points = [point for kind, point, _ in mounts if kind == "cgroup2"][:1]
        return [f"{point}/{parent}/{settings.id}" for point in points if wanted]
    controllers = {name.partition(".")[0] for name in settings.cgroups}
    return [
        f"{point}/{parent}/{settings.id}"
        for kind, point, options in mounts
        if kind == "cgroup" and controllers & set(options)
    ]
