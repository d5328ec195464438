# Derived from `generated_vmm/process/_async/jailed.py` by `make codegen`. Do not edit.
"""A monitor in a jail."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Unpack

from generated_vmm.process._sync.monitor import Monitor
from generated_vmm.process._sync.waiting import in_own_thread
from generated_vmm.process.copying import Progress
from generated_vmm.process.jail import Jail, copied, link_in, target_of
from generated_vmm.process.keeper.kernel import Descriptor
from generated_vmm.process.owner import Phase
from generated_vmm.process.settings import HostPath, JailedOptions


class JailedMonitor(Monitor):
    """As `Monitor`, started by the jailer: in a chroot, as another user, in control groups.

        with JailedMonitor(id="web", uid=1234, gid=1234) as monitor:
            kernel = monitor.copy_in("/vm/vmlinux")
            monitor.client.boot(kernel, monitor.copy_in("/vm/rootfs.ext4"))

    Needs root. `jailer` and `binary` are names or paths of programs; the other options are those of
    `JailedOptions`. `config_file`, `metadata` and `seccomp_filter` are the host's files and are
    copied in; `log_path` and `metrics_path` are paths inside. At the end the jail, all its files
    and its control groups are removed.
    """

    _place: Jail
    _place_kind = Jail

    def __init__(
        self,
        jailer: HostPath = "jailer",
        binary: HostPath = "firecracker",
        **options: Unpack[JailedOptions],
    ) -> None:
        self._set_up(Jail(jailer, binary, options))

    @property
    def root(self) -> Path:
        """The folder that is `/` to the monitor."""
        return self._place.root

    def copy_in(
        self, source: HostPath, path: HostPath | None = None, *, progress: Progress | None = None
    ) -> str:
        """Copies a file into the jail, before or after the start; returns its path for the monitor.

        The copy belongs to the jailed user, and shares its blocks with the file if the file system
        supports that. Otherwise a thread copies it; an interrupted copy is removed. `path` is the
        target, by default `/` and the file's own name; missing folders are created. `progress` is
        called with the number of copied bytes and of all bytes. Raises `FileExistsError` if the
        target exists, and `MonitorStartError` if the jail belongs to another monitor.
        """
        root, inner, owner = self._taken_root(), target_of(source, path), self._place.user
        with closing(copied(root.number, source, inner, owner)) as parts:
            while (part := in_own_thread(lambda: next(parts, None))) is not None:
                if progress is not None:
                    progress(*part)
        return inner

    def link_in(self, source: HostPath, path: HostPath | None = None, *, give: bool = False) -> str:
        """Creates a hard link to a file in the jail; returns its path for the monitor.

        It remains one file with one owner and mode. With `give`, the jailed user becomes its owner,
        outside of the jail too. The user must be able to read it, and to write to it if the guest
        writes. Raises `FileExistsError`, and `OSError` for a symbolic link (ELOOP) or a file on
        another file system (EXDEV).
        """
        root, inner, owner = self._taken_root(), target_of(source, path), self._place.user
        in_own_thread(partial(link_in, root.number, source, inner, owner, give=give))
        return inner

    def _taken_root(self) -> Descriptor:
        """The root of the jail, whose folder is taken for this monitor."""
        self._owner.take()
        self._reached(Phase.TAKEN)
        return self._owner.opened_root()

    def _prepare(self) -> None:
        self._reached(Phase.TAKEN)
        for option, copy in self._place.copies().items():
            self.copy_in(self._place.settings[option], copy)
