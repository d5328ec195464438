"""How a monitor is to be started: the options, checked, and the command line made of them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypedDict

from generated_vmm.transport import DEFAULT_MAX_BODY_BYTES

HostPath: TypeAlias = str | os.PathLike[str]
Level: TypeAlias = Literal["Error", "Warning", "Info", "Debug", "Trace", "Off"]

INSTANCE_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
LONGEST_SOCKET_PATH = 107  # bytes in sockaddr_un, without the end


class CommonOptions(TypedDict, total=False):
    """The options of every monitor, all of them optional; `Settings` has their defaults."""

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
    """The options of a monitor that is in no jail."""

    id: str | None
    directory: HostPath | None


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The options of a monitor. ValueError for a value that no monitor could be started with."""

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
        for name, value in vars(self).items():
            if value == "":
                raise ValueError(f"{name} is empty")

    @property
    def max_body_bytes(self) -> int:
        """The longest body that the monitor will take."""
        return self.http_api_max_payload_size or DEFAULT_MAX_BODY_BYTES


def monitor_arguments(settings: Settings, paths: Mapping[str, str | None]) -> list[str]:
    """The command line of Firecracker after its name, without `--id`.

    `paths` are those of the options that have one, as the monitor sees them. Source: the monitor's
    own `--help`, version 1.16.1.
    """
    valued = {
        **paths,
        "--http-api-max-payload-size": settings.http_api_max_payload_size,
        "--mmds-size-limit": settings.mmds_size_limit,
        "--level": settings.level,
        "--module": settings.module,
    }
    flags = {
        "--enable-pci": settings.enable_pci,
        "--boot-timer": settings.boot_timer,
        "--no-seccomp": settings.no_seccomp,
        "--show-level": settings.show_level,
        "--show-log-origin": settings.show_log_origin,
    }
    given = [(name, str(value)) for name, value in valued.items() if value is not None]
    return [word for pair in given for word in pair] + [name for name, on in flags.items() if on]


def without_environment(settings: object) -> dict[str, object]:
    """The options as JSON can have them, without the environment, which may hold secrets."""
    given = {name: value for name, value in vars(settings).items() if name != "env"}
    return {
        name: os.fspath(value) if isinstance(value, os.PathLike) else value
        for name, value in given.items()
    }


def require_instance_id(instance_id: str) -> None:
    """ValueError unless the monitor takes this as `--id`; it aborts for anything else."""
    if INSTANCE_ID.fullmatch(instance_id) is None:
        raise ValueError(f"id is {instance_id!r}; it must be 1 to 64 letters, digits and hyphens")


def require_short(socket_path: str) -> None:
    """ValueError for a path that no unix socket can have (unix(7))."""
    size = len(os.fsencode(socket_path))
    if size > LONGEST_SOCKET_PATH:
        raise ValueError(
            f"the socket's path has {size} bytes, at most {LONGEST_SOCKET_PATH} are possible: "
            f"{socket_path}"
        )
