"""A jail for a monitor: the jailer's command line, paths on both sides, files, and its removal.

Source: the jailer's `--help` and docs/jailer.md, version 1.16.1.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from generated_vmm.process.child import Child
from generated_vmm.process.errors import MonitorStartError
from generated_vmm.process.jail_root import JailRoot
from generated_vmm.process.launch import find_program
from generated_vmm.process.place import (
    CONSOLE_INPUT,
    CONSOLE_OUTPUT,
    LOG,
    METRICS,
    SOCKET,
    make_fifo,
)
from generated_vmm.process.settings import (
    HostPath,
    Paths,
    Settings,
    in_json,
    monitor_arguments,
    require_instance_id,
    require_short,
)
from generated_vmm.process.state import STATE, is_running
from generated_vmm.process.warden import Leftovers

ROOT = "root"
CONFIG_FILE, METADATA, SECCOMP_FILTER = "/config.json", "/metadata.json", "/seccomp-filter"


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


class Jail:
    """A monitor in a jail: it sees the files below `root` alone, as the user of the jail."""

    def __init__(
        self, jailer: HostPath, binary: HostPath, jail: JailSettings, settings: Settings
    ) -> None:
        self.settings = settings
        self.id: str | None = jail.id
        self._jailer, self._binary, self._jail = os.fspath(jailer), os.fspath(binary), jail
        self._program = os.path.realpath(shutil.which(self._binary) or self._binary)
        self._exec_name = os.path.basename(self._program)  # the jailer follows links
        self._base = os.path.abspath(jail.chroot_base_dir)
        self.directory = Path(self._base, self._exec_name, jail.id)
        self.inner = JailRoot(self.directory / ROOT, jail.uid, jail.gid)
        self._leftovers = Leftovers()
        require_short(self.socket_path)

    @property
    def socket_path(self) -> str:
        """The API's socket."""
        return self.outside(self._told_socket)

    @property
    def _told_socket(self) -> str:
        return os.fspath(self.settings.socket_path or f"/{SOCKET}")

    def claim(self) -> None:
        """Makes the folder of the jail, once. `MonitorStartError` when another monitor has it."""
        if self._leftovers.trees:
            return
        if (self.directory / STATE).exists() and not is_running(self.directory):
            Leftovers(trees=[str(self.directory)]).remove()
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.directory.mkdir()
        except FileExistsError:
            raise MonitorStartError(f"{self.directory} exists: it is another's jail") from None
        self._leftovers.trees.append(str(self.directory))
        self.inner.root.mkdir()

    def prepare(self) -> None:
        """Makes the jail and the fifos, and copies in what the monitor reads at its start."""
        self.claim()
        mounts = Path("/proc/self/mounts").read_text()
        self._leftovers.folders.extend(cgroup_folders(self._jail, self._exec_name, mounts))
        for path in (self.console_input(), str(self.directory / CONSOLE_OUTPUT)):
            make_fifo(path)
        for path in (self.outlet(LOG), self.outlet(METRICS)):
            make_fifo(path)
            os.chown(path, self._jail.uid, self._jail.gid)
        for source, path in self._read_at_start().items():
            self.inner.copy_in(source, path)

    def _read_at_start(self) -> dict[HostPath, str]:
        given = self.settings
        sources = {
            CONFIG_FILE: given.config_file,
            METADATA: given.metadata,
            SECCOMP_FILTER: given.seccomp_filter,
        }
        return {source: path for path, source in sources.items() if source is not None}

    def words(self) -> list[str]:
        """The command line."""
        exec_file = find_program(self._binary, self.settings.env)
        jailer = find_program(self._jailer, self.settings.env)
        told = monitor_arguments(self.settings, self._told())
        return [jailer, *jailer_arguments(self._jail, exec_file), *told]

    def _told(self) -> Paths:
        given = self.settings
        return Paths(
            socket=self._told_socket,
            log=os.fspath(given.log_path or f"/{LOG}"),
            metrics=os.fspath(given.metrics_path or f"/{METRICS}"),
            config_file=None if given.config_file is None else CONFIG_FILE,
            metadata=None if given.metadata is None else METADATA,
            seccomp_filter=None if given.seccomp_filter is None else SECCOMP_FILTER,
        )

    def outlet(self, name: str) -> str:
        """The fifo for the log or the metrics."""
        return self.outside(f"/{name}")

    def console_input(self) -> str:
        """The fifo that leads to the guest's console."""
        return str(self.directory / CONSOLE_INPUT)

    def log_file(self) -> str | None:
        """None: what the monitor has made may be a link to a file that it may not read."""
        return None

    def outside(self, path: str) -> str:
        """A path as the monitor says it, on the host."""
        return str(self.inner.outside(path))

    def monitor_of(self, started: Child) -> Child:
        """The jailer becomes the monitor, or with a new PID namespace its parent, and ends."""
        if not self._jail.new_pid_ns or not started.wait(self.settings.timeout):
            return started
        if started.returncode != 0:
            return started
        return Child(int((self.inner.root / f"{self._exec_name}.pid").read_text()))

    def leftovers(self) -> Leftovers:
        """What has been made up to now and is to be removed after the end."""
        return self._leftovers

    def how(self) -> dict[str, object]:
        """What makes this place again, in a form for JSON, from whatever folder."""
        return {
            "jailer": self._jailer,
            "binary": self._program,
            "jail": {**in_json(self._jail), "chroot_base_dir": self._base},
            "settings": in_json(self.settings),
            "leftovers": asdict(self._leftovers),
        }

    @classmethod
    def from_how(cls, how: Mapping[str, Any]) -> Self:
        """The place that gave this as `how`."""
        jail, settings = JailSettings(**how["jail"]), Settings(**how["settings"])
        place = cls(how["jailer"], how["binary"], jail, settings)
        place._leftovers = Leftovers(**how["leftovers"])
        return place
