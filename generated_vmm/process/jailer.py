"""The jailer's options, its command line, and the control groups that it uses.

Source: the jailer's `--help` and docs/jailer.md, version 1.16.1.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from generated_vmm.process.settings import HostPath, require_instance_id


@dataclass(frozen=True, kw_only=True)
class JailSettings:
    """How the jailer is to be run. ValueError for what it would refuse."""

    id: str
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
        require_instance_id(self.id)
        if self.cgroup_version not in (1, 2):
            raise ValueError(f"cgroup_version is {self.cgroup_version}; it must be 1 or 2")
        if unknown := set(self.resource_limits) - {"fsize", "no-file"}:
            raise ValueError(f"resource_limits has {sorted(unknown)}; there are fsize and no-file")
        for name in self.cgroups:
            if "." not in name or "/" in name:
                raise ValueError(f"cgroups has {name!r}; it must be a file as cpu.weight")


def jailer_arguments(settings: JailSettings, exec_file: str) -> list[str]:
    """The command line of the jailer after its name, up to the monitor's own arguments."""
    valued: list[tuple[str, object]] = [
        ("--id", settings.id),
        ("--exec-file", exec_file),
        ("--uid", settings.uid),
        ("--gid", settings.gid),
        ("--chroot-base-dir", os.path.abspath(settings.chroot_base_dir)),
    ]
    if settings.netns is not None:
        valued.append(("--netns", os.path.abspath(settings.netns)))
    if settings.cgroups or settings.parent_cgroup is not None:
        valued.append(("--cgroup-version", settings.cgroup_version))
    if settings.parent_cgroup is not None:
        valued.append(("--parent-cgroup", settings.parent_cgroup))
    valued += [("--cgroup", f"{name}={value}") for name, value in settings.cgroups.items()]
    limits = settings.resource_limits.items()
    valued += [("--resource-limit", f"{name}={value}") for name, value in limits]
    words = [word for name, value in valued for word in (name, str(value))]
    return [*words, *(["--new-pid-ns"] if settings.new_pid_ns else []), "--"]


def cgroup_folders(settings: JailSettings, exec_name: str, mounts: str) -> list[str]:
    """The control groups that the jailer makes for a monitor, given /proc/self/mounts."""
    parent = settings.parent_cgroup or exec_name
    if settings.cgroup_version == 2:
        wanted = bool(settings.cgroups or settings.parent_cgroup)
        points = [point for kind, point, _ in _cgroup_mounts(mounts) if kind == "cgroup2"][:1]
        return [f"{point}/{parent}/{settings.id}" for point in points if wanted]
    controllers = {name.partition(".")[0] for name in settings.cgroups}
    return [
        f"{point}/{parent}/{settings.id}"
        for kind, point, options in _cgroup_mounts(mounts)
        if kind == "cgroup" and controllers & set(options)
    ]


def _cgroup_mounts(mounts: str) -> Iterator[tuple[str, str, list[str]]]:
    for line in mounts.splitlines():
        _, point, kind, options, *_ = line.split()
        if kind.startswith("cgroup"):
            yield kind, point, options.split(",")
