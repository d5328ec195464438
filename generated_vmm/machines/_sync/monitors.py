# Derived from `generated_vmm/machines/_async/monitors.py` by `make codegen`. Do not edit.
"""The monitors of machines: started, attached, given their files, and ended."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from generated_vmm import VmmClient
from generated_vmm.concurrency._sync import in_thread
from generated_vmm.guest import Guest
from generated_vmm.machines.definition import disks_of, read_only_files
from generated_vmm.machines.errors import MachineError
from generated_vmm.machines.options import Options
from generated_vmm.machines.records import End, MachineRecord
from generated_vmm.machines.store import Store
from generated_vmm.process import JailedMonitor, Monitor, MonitorError, MonitorExited

if TYPE_CHECKING:
    from generated_vmm.process.network import Tap

LAST_LINES = 5
"""The lines of a monitor's log that are stored with its end."""


class Monitors:
    """The monitors of the machines in a store, by the machine's id.

    `client_of` makes the client with which a monitor is controlled; the default is its own.
    """

    def __init__(
        self, store: Store, options: Options, client_of: Callable[[str, Monitor], VmmClient] | None
    ) -> None:
        self._store, self._options = store, options
        self._client_of = client_of or (lambda machine, monitor: monitor.client)
        self._monitors: dict[str, Monitor] = {}
        self._clients: dict[str, VmmClient] = {}
        self._taps: dict[str, list[Tap]] = {}

    def get(self, machine: str) -> Monitor | None:
        """The monitor of a machine, if this process has it."""
        return self._monitors.get(machine)

    def client(self, machine: str) -> VmmClient | None:
        """The client of a machine's monitor, if this process has it."""
        return self._clients.get(machine)

    @property
    def held(self) -> list[str]:
        """The machines whose monitors this process has."""
        return list(self._monitors)

    def folder(self, machine: str, *, is_jailed: bool) -> Path:
        """The folder of a machine's monitor."""
        if is_jailed:
            return self._store.jails / self._options.jail_name / machine
        return self._store.folder / "run" / machine

    def _new(self, record: MachineRecord) -> Monitor:
        jail, options = record.definition.jail, self._options
        if jail is None:
            return Monitor(
                options.binary,
                id=record.id,
                directory=self.folder(record.id, is_jailed=False),
                cwd=self._store.path(record.id),
                enable_pci=record.definition.enable_pci,
                timeout=options.timeout,
                grace=options.grace,
                detached=options.detached,
            )
        return JailedMonitor(
            options.jailer,
            options.program,
            id=record.id,
            uid=record.uid,
            gid=record.uid,
            chroot_base_dir=self._store.jails,
            netns=jail.netns,
            cgroups=jail.cgroups,
            cgroup_version=jail.cgroup_version,
            parent_cgroup=jail.parent_cgroup,
            resource_limits={str(name): most for name, most in jail.resource_limits.items()},
            new_pid_ns=jail.new_pid_ns,
            enable_pci=record.definition.enable_pci,
            timeout=options.timeout,
            grace=options.grace,
            detached=options.detached,
        )

    def start(self, record: MachineRecord) -> VmmClient:
        """Starts a monitor without a configuration, with the files that the record names.

        Raises `MonitorError`, and ValueError or OSError for a file that it cannot have.
        """
        self.end(record.id, grace=0)
        if record.definition.jail is None:
            in_thread(_remove_sockets, self._store.path(record.id))
        self._make_taps(record)
        monitor = self._new(record)
        monitor.start()
        self._hold(record.id, monitor)
        made = record.definition.configuration
        for path in read_only_files(made):
            self.admit(record, path, writable=False)
        for disk in disks_of(made):
            if not disk.is_read_only:
                self.admit(record, disk.path, writable=True)
        return self._clients[record.id]

    def _hold(self, machine: str, monitor: Monitor) -> None:
        self._monitors[machine] = monitor
        self._clients[machine] = self._client_of(machine, monitor)

    def _make_taps(self, record: MachineRecord) -> None:
        made = self._taps.setdefault(record.id, [])
        for wanted in record.definition.taps:
            from generated_vmm.process.network import Tap  # needs the extra `network`

            tap = Tap(
                wanted.name,
                address=wanted.address,
                bridge=wanted.bridge,
                nat=wanted.nat,
                uid=record.uid or None,
            )
            tap.__enter__()
            made.append(tap)

    def admit(
        self, record: MachineRecord, path: str, *, writable: bool, at: str | None = None
    ) -> None:
        """Gives a machine that runs access to a file: in a jail at the same path, or `at` another.

        Raises ValueError for a file that it may not use, and OSError.
        """
        monitor = self._monitors.get(record.id)
        source = self._store.source(record, path)
        if path.startswith("/"):
            source = self._options.require_allowed(path)
            in_thread(self._store.require_free, record, source, writable=writable)
        if isinstance(monitor, JailedMonitor):
            inside = "/" + (at or path).lstrip("/")
            with suppress(FileExistsError):
                if writable:
                    monitor.link_in(source, inside, give=True)
                elif _can_be_linked(source, monitor.root):
                    monitor.link_in(source, inside)
                else:
                    monitor.copy_in(source, inside)

    def find(self, record: MachineRecord) -> Monitor | End:
        """The monitor of a machine if it runs, or else how it has ended.

        Attaches to a monitor that an earlier process has left. Raises `MonitorError` if it cannot
        be attached to.
        """
        monitor = self._monitors.get(record.id)
        if monitor is None:
            kind = Monitor if record.definition.jail is None else JailedMonitor
            folder = self.folder(record.id, is_jailed=record.definition.jail is not None)
            try:
                monitor = kind.attach(folder)
            except MonitorExited as error:
                return _end_of(error.returncode, error.log)
            except MonitorError as error:
                if error.__cause__ is None:  # nothing was started there
                    return End(how="lost")
                raise
            self._hold(record.id, monitor)
        if monitor.running:
            return monitor
        log = [line.message for line in monitor.log][-LAST_LINES:]
        end = _end_of(monitor.returncode, log)
        self.end(record.id, grace=0)
        return end

    def end(self, machine: str, grace: float | None = None) -> End | None:
        """Ends the monitor that this process has, with its tap devices; None if it has none."""
        monitor = self._monitors.get(machine)
        end = None
        if monitor is not None:
            log = [line.message for line in monitor.log][-LAST_LINES:]
            end = _end_of(monitor.stop(grace), log)
            self._forget(machine)
        self._remove_taps(machine)
        return end

    def _forget(self, machine: str) -> None:
        self._monitors.pop(machine, None)
        client = self._clients.pop(machine, None)
        if client is not None:
            client.close()

    def _remove_taps(self, machine: str) -> None:
        for tap in self._taps.pop(machine, []):
            tap.__exit__(None, None, None)

    def let_go(self, machine: str) -> None:
        """Gives up a monitor, which continues to run if it is detached, or else ends."""
        monitor = self._monitors.get(machine)
        if not self._options.detached:
            self.end(machine, grace=0)
        elif monitor is not None:
            with suppress(MonitorError):  # it has ended in this moment
                monitor.detach()
            self._forget(machine)
        self._remove_taps(machine)

    def guest(self, record: MachineRecord) -> Guest:
        """The guest of a machine that runs. Raises `MachineError` if it has no agent."""
        monitor, port = self._monitors.get(record.id), record.definition.agent
        if monitor is None or not monitor.running:
            raise MachineError(f"{record.name} does not run")
        if port is None:
            raise MachineError(f"{record.name} has no agent")
        return Guest(monitor, port=port, timeout=self._options.timeout)

    def require(self, machine: str, name: str) -> VmmClient:
        """The client of a machine's monitor. Raises `MachineError` if it does not run."""
        monitor = self._monitors.get(machine)
        if monitor is None or not monitor.running:
            raise MachineError(f"{name} does not run")
        return self._clients[machine]


def _end_of(returncode: int | None, log: object) -> End:
    lines = tuple(str(line) for line in log) if isinstance(log, list | tuple) else ()
    return End(how="lost" if returncode is None else "ended", returncode=returncode, log=lines)


def _can_be_linked(source: Path, root: Path) -> bool:
    """Whether a jailed user can open a link; a file of another file system has none."""
    found = source.stat()
    return bool(found.st_mode & stat.S_IROTH) and found.st_dev == root.stat().st_dev


def _remove_sockets(folder: Path) -> None:
    """Removes the sockets of vsock devices that a monitor without a jail has left."""
    for entry in os.scandir(folder):
        if stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):
            os.unlink(entry.path)
