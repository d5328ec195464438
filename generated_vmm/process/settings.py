"""The options for starting a monitor, their checks, and the command lines made of them.

Source: `--help` of the monitor and of the jailer, and docs/jailer.md, version 1.16.1.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Required, TypeAlias, TypedDict

HostPath: TypeAlias = str | os.PathLike[str]
Level: TypeAlias = Literal["Error", "Warning", "Info", "Debug", "Trace", "Off"]

# Arguments of the monitor and of the jailer under these names.
MONITOR_ARGUMENTS = (
    *("http_api_max_payload_size", "mmds_size_limit", "level", "module"),
    *("enable_pci", "boot_timer", "no_seccomp", "show_level", "show_log_origin"),
)
FILES = ("config_file", "metadata", "seccomp_filter")  # that the monitor reads at its start
NUMBERS = ("serial_bytes", "http_api_max_payload_size", "mmds_size_limit", "timeout", "grace")
FLAGS = (*MONITOR_ARGUMENTS[4:], "detached", "new_pid_ns")
INSTANCE_ID = re.compile(r"[A-Za-z0-9-]{1,64}")


class CommonOptions(TypedDict, total=False):
    """The options of every monitor, all optional."""

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


class JailedOptions(CommonOptions, total=False):
    """The options of a jailed monitor."""

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


def checked(
    options: Mapping[str, Any], known: Iterable[str], host_paths: Iterable[str]
) -> dict[str, Any]:
    """The options that are not None, in a form for JSON; paths of the host are absolute.

    Raises TypeError for an unknown option, ValueError for a value that no monitor can start with.
    """
    if unknown := set(options) - set(known):
        raise TypeError(f"there are no options {sorted(unknown)}; there are {sorted(known)}")
    given = {
        name: os.fspath(value) if isinstance(value, os.PathLike) else value
        for name, value in options.items()
        if value is not None
    }
    if "id" in given:
        require_instance_id(given["id"])
    if given.get("no_seccomp") and "seccomp_filter" in given:
        raise ValueError("no_seccomp and seccomp_filter exclude each other")
    for name, value in given.items():
        if value == "":
            raise ValueError(f"{name} is empty")
        if name in FLAGS and not isinstance(value, bool):
            raise ValueError(f"{name} is {value!r}; it must be True or False")
        if name in NUMBERS:
            require_number(name, value)
    return given | {each: os.path.abspath(given[each]) for each in host_paths if each in given}


def require_number(name: str, value: object) -> None:
    """Raises ValueError unless it is a number of seconds or bytes; only `grace` may be 0."""
    if not isinstance(value, int | float):
        raise ValueError(f"{name} is {value!r}; it must be a number")
    if not (value > 0 or (value == 0 and name == "grace")):
        what = "cannot be negative" if name == "grace" else "must be more than 0"
        raise ValueError(f"{name} is {value}; it {what}")


def monitor_arguments(settings: Mapping[str, Any], paths: Mapping[str, str | None]) -> list[str]:
    """The command line of Firecracker after its name, without `--id`.

    `paths` are the paths among the options, as the monitor sees them.
    """
    return words_of({**paths, **{name: settings.get(name) for name in MONITOR_ARGUMENTS}})


def words_of(options: Mapping[str, object]) -> list[str]:
    """The words of a command line for options; those that are None or false are left out."""
    words = []
    for name, value in options.items():
        if value is not None and value is not False:
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return words


def require_instance_id(instance_id: str) -> None:
    """Raises ValueError unless the monitor accepts this as `--id`; otherwise it would abort."""
    if INSTANCE_ID.fullmatch(instance_id) is None:
        raise ValueError(f"id is {instance_id!r}; it must be 1 to 64 letters, digits and hyphens")
