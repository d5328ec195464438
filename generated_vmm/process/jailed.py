"""Monitors in a jail."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Required, Unpack, cast

from generated_vmm.facade import AsyncVmmClient, VmmClient
from generated_vmm.process.asynchronous import AsyncMonitor, async_finished
from generated_vmm.process.broadcast import Work
from generated_vmm.process.jail import Jail
from generated_vmm.process.jail_files import Progress, inside
from generated_vmm.process.jailer import JailSettings
from generated_vmm.process.monitor import Client, Monitor, MonitorBase, finished
from generated_vmm.process.settings import CommonOptions, HostPath, Settings
from generated_vmm.process.supervisor import Goal

OF_THE_JAIL = {field.name for field in dataclasses.fields(JailSettings)}


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


class JailedBase(MonitorBase[Client]):
    """The paths of a jail. The monitor knows the paths inside alone."""

    _workspace_kind = Jail

    @property
    def _jail(self) -> Jail:
        return cast(Jail, self._run.workspace)

    @property
    def root(self) -> Path:
        """The folder that is `/` to the monitor."""
        return self._jail.root

    def inside(self, path: HostPath) -> str:
        """A path of the host as the monitor sees it. ValueError for one outside of the jail."""
        return inside(self._jail.root, path)

    def outside(self, path: HostPath) -> Path:
        """A path as the monitor sees it, on the host.

        The jailed user owns the root: the file may be a link that it made, to anywhere.
        """
        return self._jail.outside(path)


class JailedMonitor(JailedBase[VmmClient], Monitor):
    """A `Monitor` that the jailer starts: in a chroot, as another user, in control groups.

        with JailedMonitor(id="web", uid=1234, gid=1234) as monitor:
            kernel = monitor.copy_in("/vm/vmlinux")
            monitor.client.boot(kernel, monitor.copy_in("/vm/rootfs.ext4"))

    Needs root. `jailer` and `binary` are names or paths of programs; the other options are those of
    `JailedOptions`. `config_file`, `metadata` and `seccomp_filter` are the host's files and are
    copied in; `socket_path`, `log_path` and `metrics_path` are paths inside. At the end the jail
    is removed with all that is in it, and its control groups.
    """

    def __init__(
        self,
        jailer: HostPath = "jailer",
        binary: HostPath = "firecracker",
        **options: Unpack[JailedOptions],
    ) -> None:
        self._set_up(_jail_of(jailer, binary, options))

    def copy_in(
        self,
        source: HostPath,
        path: HostPath | None = None,
        *,
        progress: Progress | None = None,
    ) -> str:
        """Copies a file into the jail, before or after the start; the path for the monitor.

        The copy is the jailed user's, and shares its blocks with the file where the file system
        can. `path` is where, by default `/` and the file's own name; missing folders are made.
        `progress` is called with the bytes that were copied and the bytes that there are. Raises
        `FileExistsError` when there is something already, `MonitorStartError` when the jail is
        another monitor's.
        """
        self._carry_out(Goal.CLAIM)
        return finished(_copying(self._jail, source, path, progress or _ignore))

    def link_in(self, source: HostPath, path: HostPath | None = None, *, give: bool = False) -> str:
        """Makes a hard link to a file in the jail; the path for the monitor.

        It stays one file with one owner and mode: those it had, or with `give` the jailed user
        becomes its owner, outside too. The user must be able to read it, and to write to it where
        the guest may. Raises `FileExistsError`, and `OSError` for a symbolic link (ELOOP) and for a
        file on another file system (EXDEV).
        """
        self._carry_out(Goal.CLAIM)
        return finished(_linking(self._jail, source, path, give=give))


class AsyncJailedMonitor(JailedBase[AsyncVmmClient], AsyncMonitor):
    """`JailedMonitor` for the tasks of an event loop."""

    def __init__(
        self,
        jailer: HostPath = "jailer",
        binary: HostPath = "firecracker",
        **options: Unpack[JailedOptions],
    ) -> None:
        self._set_up(_jail_of(jailer, binary, options))

    async def copy_in(
        self,
        source: HostPath,
        path: HostPath | None = None,
        *,
        progress: Progress | None = None,
    ) -> str:
        """Copies a file into the jail in a thread; see `JailedMonitor.copy_in`.

        `progress` is called on the event loop. A cancelled copy leaves nothing.
        """
        loop, wanted = asyncio.get_running_loop(), progress or _ignore

        def tell(done: int, size: int) -> None:
            loop.call_soon_threadsafe(wanted, done, size)

        await self._carry_out(Goal.CLAIM)
        return await async_finished(_copying(self._jail, source, path, tell))

    async def link_in(
        self, source: HostPath, path: HostPath | None = None, *, give: bool = False
    ) -> str:
        """Makes a hard link to a file in the jail; see `JailedMonitor.link_in`."""
        await self._carry_out(Goal.CLAIM)
        return await async_finished(_linking(self._jail, source, path, give=give))


def _jail_of(jailer: HostPath, binary: HostPath, options: JailedOptions) -> Jail:
    given = cast(dict[str, Any], options)
    ours = {name: value for name, value in given.items() if name in OF_THE_JAIL}
    rest = {name: value for name, value in given.items() if name not in OF_THE_JAIL}
    return Jail(jailer, binary, JailSettings(**ours), Settings(**rest))


def _copying(jail: Jail, source: HostPath, path: HostPath | None, progress: Progress) -> Work[str]:
    def copy(require_wanted: Callable[[], None]) -> str:
        return jail.copy_in(source, path, progress, require_wanted)

    return Work(copy, "monitor-copy")


def _linking(jail: Jail, source: HostPath, path: HostPath | None, *, give: bool) -> Work[str]:
    return Work(lambda _: jail.link_in(source, path, give=give), "monitor-link")


def _ignore(_done: int, _size: int) -> None:
    pass
