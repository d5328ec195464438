"""A jail for a monitor: its paths on both sides, its files, and its control groups.

Source for the jailer's command line: its `--help` and docs/jailer.md, version 1.16.1.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

from generated_vmm.process.copying import copy_data, regular
from generated_vmm.process.errors import MonitorStartError
from generated_vmm.process.keeper import record
from generated_vmm.process.keeper.folder import ROOT
from generated_vmm.process.keeper.kernel import FOLDER, Descriptor
from generated_vmm.process.keeper.messages import open_beneath
from generated_vmm.process.place import Place, find_program
from generated_vmm.process.settings import (
    FILES,
    HostPath,
    JailedOptions,
    checked,
    monitor_arguments,
    words_of,
)

HOST_PATHS = ("chroot_base_dir", "netns", "cwd", *FILES)
ARGUMENTS = ("id", "uid", "gid", "chroot_base_dir", "netns", "parent_cgroup", "new_pid_ns")
LEAST_MEMORY = 1 << 20  # bytes for any monitor
CONTROL_GROUPS = "/sys/fs/cgroup"
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


class Jail(Place):
    """A monitor in a jail: it sees only the files below `root`, as the user of the jail."""

    _is_jailed = True

    def __init__(self, jailer: HostPath, binary: HostPath, options: Mapping[str, Any]) -> None:
        if "/" not in os.fspath(options.get("netns") or "/"):
            raise ValueError(f"netns is {options['netns']!r}; it must be a path: /run/netns/web")
        given = checked(options, JailedOptions, HOST_PATHS)
        require_jail_options(given)
        self.settings = {"chroot_base_dir": "/srv/jailer", "cwd": os.path.abspath("."), **given}
        self.user = (given["uid"], given["gid"])
        self._programs = [os.fspath(jailer), os.path.realpath(shutil.which(binary) or binary)]
        self._exec_name = os.path.basename(self._programs[1])
        if "firecracker" in os.path.basename(jailer) and "jailer" in self._exec_name:
            raise ValueError(f"binary is {self._programs[1]}: jailer and binary are swapped")

    @property
    def directory(self) -> Path:
        """The folder of the jail."""
        return Path(self.settings["chroot_base_dir"], self._exec_name, self.settings["id"])

    @property
    def root(self) -> Path:
        """The folder that is `/` to the monitor."""
        return self.directory / ROOT

    @property
    def socket_path(self) -> str:
        """The API's socket."""
        return str(self.root / record.SOCKET)

    def outside(self, path: HostPath) -> Path:
        """The path on the host of a path that the monitor sees. Only links lead out of the jail."""
        return self.root / normal(path).lstrip("/")

    def open_socket(self, path: str, root: Descriptor | None) -> Descriptor:
        """An O_PATH descriptor of a socket in the jail; see `Place.open_socket`."""
        if root is None:
            raise FileNotFoundError(f"{self.directory} is not open")
        return self._require_own(open_beneath(root.number, path))

    def copies(self) -> dict[str, str]:
        """The copies of the host's files that the monitor reads at its start, by their option."""
        return {name: f"/{name}" for name in FILES if name in self.settings}

    def order(self) -> record.Order:
        """The order for the keeper; see `Place.order`."""
        if os.geteuid() != 0:
            raise MonitorStartError("a jail needs root: the jailer changes root, user and groups")
        return self._ordered(
            control_groups(self.settings, self._exec_name),
            new_pid_ns=self.settings.get("new_pid_ns", False),
        )

    def _argv(self) -> list[str]:
        env = self.settings.get("env")
        paths = {
            **self.copies(),
            "api_sock": f"/{record.SOCKET}",
            "log_path": self.settings.get("log_path", f"/{record.LOG}"),
            "metrics_path": self.settings.get("metrics_path", f"/{record.METRICS}"),
        }
        names = zip(("jailer", "binary"), self._programs, strict=True)
        jailer, exec_file = (find_program(option, each, env) for option, each in names)
        inner = monitor_arguments(self.settings, paths)
        return [jailer, *jailer_arguments(self.settings, exec_file), *inner]


def require_jail_options(given: Mapping[str, Any]) -> None:
    """Raises ValueError for what the jailer would refuse, and for what is no jail."""
    for name in ("uid", "gid"):
        if given.get(name) == 0:
            raise ValueError(f"{name} is 0, and root can leave a jail: give the monitor its own")
    for name, value in given.get("cgroups", {}).items():
        if "." not in name or "/" in name:
            raise ValueError(f"cgroups has {name!r}; it must be a file such as cpu.weight")
        if name == "memory.max" and str(value).isdigit() and int(value) < LEAST_MEMORY:
            raise ValueError(f"cgroups has memory.max {value}; it is in bytes, unlike {value}M")


def jailer_arguments(settings: Mapping[str, Any], exec_file: str) -> list[str]:
    """The command line of the jailer after its name, up to the monitor's own arguments."""
    words = words_of({"exec_file": exec_file, **{each: settings.get(each) for each in ARGUMENTS}})
    if "cgroups" in settings or "parent_cgroup" in settings:
        words += ["--cgroup-version", str(settings.get("cgroup_version", 2))]
    for name, value in settings.get("cgroups", {}).items():
        words += ["--cgroup", f"{name}={value}"]
    for limit, most in settings.get("resource_limits", {}).items():
        words += ["--resource-limit", f"{limit}={most}"]
    return [*words, "--"]


def control_groups(settings: Mapping[str, Any], exec_name: str) -> list[str]:
    """The control groups that the jailer makes for a monitor, where systemd mounts them."""
    name = f"{settings.get('parent_cgroup', exec_name)}/{settings['id']}"
    files = settings.get("cgroups", ())
    if settings.get("cgroup_version", 2) == 1:
        controllers = {file.partition(".")[0] for file in files}  # two of them may be one folder
        hierarchies = {os.path.realpath(f"{CONTROL_GROUPS}/{each}") for each in controllers}
        return [f"{each}/{name}" for each in sorted(hierarchies)]
    is_alone = os.path.exists(f"{CONTROL_GROUPS}/cgroup.controllers")
    unified = CONTROL_GROUPS if is_alone else f"{CONTROL_GROUPS}/unified"
    return [f"{unified}/{name}"] if files or "parent_cgroup" in settings else []


# The jailed monitor owns its root: it may have created links there, and may swap names at any time.
# So files are opened step by step from the root's descriptor, and changed through descriptors.


def normal(path: HostPath) -> str:
    """A path as the monitor sees it, without `..`."""
    return os.path.normpath("/" + os.fspath(path).lstrip("/"))


def folder_of(root: int, path: str, owner: tuple[int, int]) -> Descriptor:
    """The parent folder of a path inside; creates missing folders for the owner.

    Raises OSError if a step is a link.
    """
    folder = Descriptor(os.dup, root)
    for name in filter(None, os.path.dirname(normal(path)).split("/")):
        folder = _step(folder.number, name, owner)
    return folder


def _step(folder: int, name: str, owner: tuple[int, int]) -> Descriptor:
    made = False
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=folder)
        made = True
    inner = Descriptor(os.open, name, FOLDER, dir_fd=folder)
    if made and os.fstat(inner.number).st_uid == os.geteuid():
        os.fchown(inner.number, *owner)
    return inner


def target_of(source: HostPath, path: HostPath | None) -> str:
    """The path inside for a file that is brought in: `/` and its own name by default."""
    return normal(os.path.basename(os.fspath(source)) if path is None else path)


def copied(
    root: int, source: HostPath, path: str, owner: tuple[int, int]
) -> Generator[tuple[int, int], None, None]:
    """Copies a regular file to a path inside, where only its owner may use it.

    Yields the number of copied bytes and of all bytes after each part. A copy that fails, or is
    closed before its end, is removed.
    """
    folder, original = folder_of(root, path, owner), regular(source)
    name = os.path.basename(path)
    copy = Descriptor(os.open, name, NEW_FILE, 0o600, dir_fd=folder.number)
    try:
        yield from copy_data(original.number, copy.number)
        os.fchown(copy.number, *owner)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder.number)
        raise


def link_in(root: int, source: HostPath, path: str, owner: tuple[int, int], *, give: bool) -> None:
    """Creates a hard link to a regular file at a path inside; `give` changes the file's owner."""
    folder, file = folder_of(root, path, owner), regular(source, os.O_NOFOLLOW)
    name, original = os.path.basename(path), f"/proc/self/fd/{file.number}"
    os.link(original, name, dst_dir_fd=folder.number, follow_symlinks=True)
    if give:
        os.fchown(file.number, *owner)
