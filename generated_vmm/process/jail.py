"""A jail for a monitor: its files, its control groups, and its processes."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self, cast

from generated_vmm.process.child import Child, Descriptor, find_program
from generated_vmm.process.errors import MonitorStartError
from generated_vmm.process.folders import (
    make_fifo,
    require_private,
    require_trusted_path,
    retried,
)
from generated_vmm.process.jail_files import FOLDER, Progress, copy_in, folder_of, link_in, normal
from generated_vmm.process.removal import identity, is_ready, start_time_of
from generated_vmm.process.settings import (
    HostPath,
    JailSettings,
    cgroup_folders,
    jailer_arguments,
    monitor_arguments,
    own_cgroup,
    without_environment,
)
from generated_vmm.process.state import ROOT, State
from generated_vmm.process.things import ControlGroup, Session, Thing, Ward
from generated_vmm.process.workspace import (
    CONSOLE_INPUT,
    CONSOLE_OUTPUT,
    LOG,
    METRICS,
    SOCKET,
    Workspace,
)

MOUNTS = Path("/proc/self/mounts")
OWN_CGROUPS = Path("/proc/self/cgroup")
COPIES = {
    "config_file": "/config.json",
    "metadata": "/metadata.json",
    "seccomp_filter": "/seccomp-filter",
}


class Jail(Workspace):
    """A monitor in a jail: it sees only the files below `root`, as the user of the jail."""

    _is_whole = True
    _mode = 0o711  # others may pass through, not read: a user that can read a folder can lock it

    settings: JailSettings

    def __init__(self, jailer: HostPath, binary: HostPath, settings: JailSettings) -> None:
        self._program = os.path.realpath(shutil.which(binary) or binary)
        self._jailer, self._exec_name = os.fspath(jailer), os.path.basename(self._program)
        self._base = os.path.abspath(settings.chroot_base_dir)
        directory = Path(self._base, self._exec_name, settings.id)  # the jailer follows links
        self.root = directory / ROOT
        self._root: Descriptor | None = None
        self._own_cgroup: ControlGroup | None = None
        super().__init__(binary, replace(settings, directory=directory))
        self.uid, self._owner = settings.uid, (settings.uid, settings.gid)
        self.ignores_sigterm = settings.new_pid_ns

    @property
    def socket_path(self) -> str:
        """The API's socket."""
        return str(self.outside(self._inner_socket))

    @property
    def _inner_socket(self) -> str:
        return os.fspath(self.settings.socket_path or f"/{SOCKET}")

    def outside(self, path: HostPath) -> Path:
        """The path on the host of a path that the monitor sees. Only links lead out of the jail."""
        return self.root / normal(path).lstrip("/")

    def _hold(self, path: str, require_wanted: Callable[[], None]) -> bool:
        self._make_parents(path, require_trusted_path)
        for folder in (self._base, os.path.dirname(path)):
            require_private(folder, os.stat(folder))
        return super()._hold(path, require_wanted)

    def _remove_leftovers(self) -> bool:
        made = super()._remove_leftovers()
        if os.listdir(self.descriptor):
            raise MonitorStartError(
                f"{self.directory} exists: it is another jail, or something is mounted in it"
            )
        return made

    def take(self, tell: Callable[[Ward], None], require_wanted: Callable[[], None]) -> None:
        """Holds the folder, and creates the root in it; see `Workspace.take`."""
        super().take(tell, require_wanted)
        os.mkdir(ROOT, 0o755, dir_fd=self.descriptor)
        self._root = Descriptor(self.open(ROOT, FOLDER))

    def take_back(self, descriptor: int, state: State) -> None:
        """Takes over the folder and the things of a detached monitor."""
        super().take_back(descriptor, state)
        self._root = Descriptor(self.open(ROOT, FOLDER))

    def prepare(self) -> None:
        """Creates fifos and control groups, and copies in the files that the monitor needs."""
        for name in (CONSOLE_INPUT, CONSOLE_OUTPUT):
            make_fifo(name, self.descriptor, self.directory)
        for name in (LOG, METRICS):
            make_fifo(name, self._held(self._root).number, self.root)
            self._give_fifo(name)
        for folder in cgroup_folders(self.settings, self._exec_name, MOUNTS.read_text()):
            retried(partial(self._make_cgroup, folder))
        self._make_own_cgroup()
        for option, copy in self._copies().items():
            self.copy_in(getattr(self.settings, option), copy)

    def _give_fifo(self, name: str) -> None:
        fifo = self.outlet(name, os.O_RDONLY | os.O_NONBLOCK)
        try:
            os.fchown(fifo, *self._owner)
        finally:
            os.close(fifo)

    def _make_cgroup(self, folder: str) -> None:
        """Creates a control group for this monitor. Raises `MonitorStartError` if it exists."""
        self._make_parents(folder)
        made = self.make_group(folder)
        if isinstance(made, FileExistsError):
            raise MonitorStartError(
                f"the control group {folder} exists: another jail may use it, else remove it"
            )
        if isinstance(made, OSError):
            raise made

    def _make_own_cgroup(self) -> None:
        """Creates one below this process's, if the host allows that: no process can leave it."""
        parent = own_cgroup(MOUNTS.read_text(), OWN_CGROUPS.read_text())
        if parent is not None:
            made = self.make_group(f"{parent}/generated-vmm-{secrets.token_hex(8)}")
            if isinstance(made, ControlGroup):  # else, for instance, cgroupfs is read-only
                self._own_cgroup = made

    def own_process(self, child: Child) -> None:
        """Adds a process, its session and its control group to the ward."""
        if self._own_cgroup is not None and self.session is None:  # the jailer may move its child
            with contextlib.suppress(OSError):
                self._own_cgroup.take_in(child.pid)
        super().own_process(child)

    def _copies(self) -> dict[str, str]:
        """The copies of files that the monitor reads at its start, by the options for them."""
        given = vars(self.settings)
        return {option: copy for option, copy in COPIES.items() if given[option] is not None}

    def argv(self) -> list[str]:
        """The command line."""
        exec_file = find_program(self._binary[0], self.settings.env)
        jailer = find_program(self._jailer, self.settings.env)
        inner = monitor_arguments(self.settings, self._paths())
        return [jailer, *jailer_arguments(self.settings, exec_file), *inner]

    def _paths(self) -> dict[str, str | None]:
        return {
            "api_sock": self._inner_socket,
            "log_path": os.fspath(self.settings.log_path or f"/{LOG}"),
            "metrics_path": os.fspath(self.settings.metrics_path or f"/{METRICS}"),
            **self._copies(),
        }

    def outlet(self, name: str, flags: int) -> int:
        """Opens the fifo for the log or the metrics."""
        return self._open_in(self._root, name, flags)

    def open_socket(self, path: str | None = None) -> int:
        """An O_PATH descriptor of a socket; see `Workspace.open_socket`."""
        wanted = normal(self._inner_socket if path is None else path)
        with self._opened_root() as root, folder_of(root, wanted) as folder:
            name = os.path.basename(wanted)
            return self.require_socket(os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=folder))

    def vsock_made_at(self, path: str) -> Thing | None:
        """None: it goes with the root."""

    def log_file(self) -> str | None:
        """None: it is inside."""

    def monitor_of(self, started: Child) -> Child:
        """The jailer becomes the monitor, or with a new PID namespace its parent, and ends.

        Its PID file is not read: the jailed user could write to it too.
        """
        if not self.settings.new_pid_ns or not is_ready(started.pidfd, self.settings.timeout):
            return started
        session = cast(Session, self.session)
        found = [pid for pid in session.pids() if pid != started.pid]
        return Child(min(found, key=lambda pid: start_time_of(pid) or 0)) if found else started

    def _root_identity(self) -> list[int]:
        return identity(".", self._held(self._root).number)

    def copy_in(
        self,
        source: HostPath,
        path: HostPath | None = None,
        progress: Progress | None = None,
        require_wanted: Callable[[], None] = lambda: None,
    ) -> str:
        """Copies a file in; returns the path for the monitor. See `jail_files.copy_in`."""
        inner = self._target(source, path)
        with self._opened_root() as root:
            copy_in(root, source, inner, self._owner, progress or (lambda *_: None), require_wanted)
        return inner

    def link_in(self, source: HostPath, path: HostPath | None = None, *, give: bool) -> str:
        """Creates a hard link in the jail; returns the path for the monitor."""
        inner = self._target(source, path)
        with self._opened_root() as root:
            link_in(root, source, inner, self._owner, give=give)
        return inner

    def _target(self, source: HostPath, path: HostPath | None) -> str:
        return normal(os.path.basename(os.fspath(source)) if path is None else path)

    @contextlib.contextmanager
    def _opened_root(self) -> Iterator[int]:
        """The root of the jail for one use, even if the monitor ends meanwhile."""
        root = self._open_in(self._root, ".", FOLDER)
        try:
            yield root
        finally:
            os.close(root)

    def abandon(self) -> None:
        """Only closes the descriptors; see `Workspace.abandon`."""
        super().abandon()
        self._root = None

    def how(self) -> dict[str, Any]:
        """The data for `from_how`, with absolute paths."""
        settings = {**without_environment(self.settings), "chroot_base_dir": self._base}
        return {"jailer": self._jailer, "binary": self._program, "settings": settings}

    @classmethod
    def from_how(cls, how: Mapping[str, Any]) -> Self:
        """The workspace whose `how` this is."""
        return cls(how["jailer"], how["binary"], JailSettings(**how["settings"]))
