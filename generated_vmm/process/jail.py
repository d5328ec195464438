"""A jail for a monitor: its paths on both sides, its files, and its control groups."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

from generated_vmm.process.errors import MonitorStartError
from generated_vmm.process.jail_files import normal
from generated_vmm.process.keeper.conversation import Order
from generated_vmm.process.keeper.kernel import mounts
from generated_vmm.process.keeper.making import ROOT
from generated_vmm.process.keeper.monitor import open_beneath
from generated_vmm.process.keeper.record import LOG, METRICS, SOCKET
from generated_vmm.process.place import Place
from generated_vmm.process.program import find_program
from generated_vmm.process.settings import (
    HostPath,
    JailSettings,
    cgroup_folders,
    jailer_arguments,
    monitor_arguments,
    without_environment,
)

COPIES = {
    "config_file": "/config.json",
    "metadata": "/metadata.json",
    "seccomp_filter": "/seccomp-filter",
}


class Jail(Place):
    """A monitor in a jail: it sees only the files below `root`, as the user of the jail."""

    kind: ClassVar[str] = "jailed monitor"
    _is_jailed = True
    _mode = 0o711  # others may pass through, not read: a user that can read a folder can lock it

    settings: JailSettings

    def __init__(self, jailer: HostPath, binary: HostPath, settings: JailSettings) -> None:
        self._program = os.path.realpath(shutil.which(binary) or binary)
        self._jailer, self._exec_name = os.fspath(jailer), os.path.basename(self._program)
        self._base = os.path.abspath(settings.chroot_base_dir)
        directory = Path(self._base, self._exec_name, settings.id)  # the jailer follows links
        self.root = directory / ROOT
        super().__init__(binary, replace(settings, directory=directory, socket_path=None))
        self._inner_socket = normal(settings.socket_path or SOCKET)
        self.uid, self.owner = settings.uid, (settings.uid, settings.gid)

    @property
    def socket_path(self) -> str:
        """The API's socket."""
        return str(self.outside(self._inner_socket))

    def outside(self, path: HostPath) -> Path:
        """The path on the host of a path that the monitor sees. Only links lead out of the jail."""
        return self.root / normal(path).lstrip("/")

    def open_socket(self, path: str, root: int | None) -> int:
        """An O_PATH descriptor of a socket in the jail; see `Place.open_socket`."""
        if root is None:
            raise FileNotFoundError(f"{self.directory} is not open")
        return self._require_own(open_beneath(root, path))

    def log_file(self) -> str | None:
        """None: it is inside."""

    def copies(self) -> dict[str, str]:
        """The host's files that the monitor reads at its start, and their copies."""
        given = vars(self.settings)
        return {given[option]: copy for option, copy in COPIES.items() if given[option]}

    def require_root(self) -> None:
        """Raises `MonitorStartError` for a user who cannot start the jailer."""
        if os.geteuid() != 0:
            raise MonitorStartError("a jail needs root: the jailer changes root, user and groups")

    def order(self) -> Order:
        """The order for the start; see `Place.order`."""
        return replace(
            super().order(),
            socket=("", self._inner_socket),
            inherits=False,
            owner=self.owner,
            groups=cgroup_folders(self.settings, self._exec_name, mounts()),
            follows=self.settings.new_pid_ns,
        )

    def _argv(self) -> list[str]:
        exec_file = find_program("binary", self._binary[0], self.settings.env)
        jailer = find_program("jailer", self._jailer, self.settings.env)
        paths = {
            "api_sock": self._inner_socket,
            "log_path": os.fspath(self.settings.log_path or f"/{LOG}"),
            "metrics_path": os.fspath(self.settings.metrics_path or f"/{METRICS}"),
            **{option: copy for option, copy in COPIES.items() if vars(self.settings)[option]},
        }
        inner = monitor_arguments(self.settings, paths)
        return [jailer, *jailer_arguments(self.settings, exec_file), *inner]

    def _how(self) -> dict[str, Any]:
        settings = {**without_environment(self.settings), "chroot_base_dir": self._base}
        settings |= {"socket_path": self._inner_socket}
        is_init = self.settings.new_pid_ns
        return {
            **{"kind": self.kind, "is_init": is_init, "jailer": self._jailer},
            **{"binary": self._program, "settings": settings},
        }

    @classmethod
    def _made_of(cls, how: Mapping[str, Any]) -> Self:
        return cls(how["jailer"], how["binary"], JailSettings(**how["settings"]))
