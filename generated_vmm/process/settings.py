"""The options for starting a monitor, their checks, and the command lines made of them.

Source: `--help` of the monitor and of the jailer, and docs/jailer.md, version 1.16.1.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import cache
from threading import TIMEOUT_MAX
from typing import Annotated, Any, Literal, Required, TypeAlias

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from generated_vmm.misuse import require_options, require_replaced, tell_unit

HostPath: TypeAlias = str | os.PathLike[str]
Level: TypeAlias = Literal["Error", "Warning", "Info", "Debug", "Trace", "Off"]
Size: TypeAlias = Annotated[int, Field(gt=0)]
UserId: TypeAlias = Annotated[int, Field(ge=0)]
InstanceId: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}\z")]

# Arguments of the monitor and of the jailer under these names.
MONITOR_ARGUMENTS = (
    *("http_api_max_payload_size", "mmds_size_limit", "level", "module"),
    *("enable_pci", "boot_timer", "no_seccomp", "show_level", "show_log_origin"),
)
FILES = ("config_file", "metadata", "seccomp_filter")  # that the monitor reads at its start


class CommonOptions(TypedDict, total=False):
    """The options of every monitor, all optional."""

    config_file: HostPath | None
    metadata: HostPath | None
    enable_pci: bool
    boot_timer: bool
    no_seccomp: bool
    seccomp_filter: HostPath | None
    http_api_max_payload_size: Size | None
    mmds_size_limit: Size | None
    log_path: HostPath | None
    level: Level | None
    module: str | None
    show_level: bool
    show_log_origin: bool
    metrics_path: HostPath | None
    serial_bytes: Size
    env: Mapping[str, str] | None
    cwd: HostPath | None
    timeout: Annotated[float, Field(gt=0, le=TIMEOUT_MAX)]
    grace: Annotated[float, Field(ge=0)]
    detached: bool


class MonitorOptions(CommonOptions, total=False):
    """The options of a monitor without a jail."""

    id: InstanceId | None
    directory: HostPath | None


class JailedOptions(CommonOptions, total=False):
    """The options of a jailed monitor."""

    id: Required[InstanceId]
    uid: Required[UserId]
    gid: Required[UserId]
    chroot_base_dir: HostPath
    netns: HostPath | None
    cgroups: Mapping[str, str | int]
    cgroup_version: Literal[1, 2]
    parent_cgroup: str | None
    resource_limits: Mapping[Literal["fsize", "no-file"], int]
    new_pid_ns: bool


def checked(options: Mapping[str, Any], kind: type, host_paths: Iterable[str]) -> dict[str, Any]:
    """The options that are not None, in a form for JSON; paths of the host are absolute.

    Raises TypeError for an unknown option, ValueError for a value that no monitor can start with.
    """
    known = kind.__annotations__
    require_options(options, known)
    given = {name: _plain(value) for name, value in options.items() if value is not None}
    try:
        _reader(kind).validate_python(given, strict=True)
    except ValidationError as error:
        raise ValueError(_fault(given, error)) from None
    for name, value in given.items():
        require_replaced(name, value)
        if name in ("timeout", "grace"):
            tell_unit(name, value)
        if value == "":
            raise ValueError(f"{name} is empty")
        if isinstance(value, str) and "\0" in value:
            raise ValueError(f"{name} has a NUL character")
    return given | {each: os.path.abspath(given[each]) for each in host_paths if each in given}


def _plain(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return dict(value) if isinstance(value, Mapping) else value


@cache
def _reader(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _fault(given: Mapping[str, Any], error: ValidationError) -> str:
    """The first option that is wrong, and why; without the values of an environment."""
    first = error.errors(include_url=False)[0]
    option, *keys = first["loc"]
    value, what = given.get(str(option)), first["msg"].replace("Input should", "it must")
    said = f"is {value!r}"
    if isinstance(value, Mapping):  # which may have secrets
        said = f"has {keys[0]!r}" if keys and keys[0] in value else "is a mapping"
    return f"{option} {said}; {what}"


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
