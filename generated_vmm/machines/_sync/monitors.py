# Derived from `generated_vmm/machines/_async/monitors.py` by `make codegen`. Do not edit.
"""The monitors of machines: started, attached, given their files, and ended."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generated_vmm import VmmClient
from generated_vmm.concurrency._sync import in_thread
from generated_vmm.errors import VmmTimeoutError
from generated_vmm.guest import Guest
from generated_vmm.machines.definition import files_of
from generated_vmm.machines.errors import MachineError
from generated_vmm.machines.options import Options
from generated_vmm.machines.records import End, MachineRecord
from generated_vmm.machines.store import Store
from generated_vmm.process import JailedMonitor, Monitor, MonitorError, MonitorExited
from generated_vmm.process.keeper.record import RECORD

if TYPE_CHECKING:
    from generated_vmm.process.network import Tap

MOMENT_SECONDS = 0.25
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

    def is_up(self, machine: str) -> bool:
        """Whether the monitor of a machine runs, as far as this process knows."""
        monitor = self._monitors.get(machine)
        return monitor is not None and monitor.running

    def has_ended(self, machine: str) -> bool:
        """Whether a monitor that did not respond has ended, or ends within a moment."""
        monitor = self._monitors.get(machine)
        with suppress(VmmTimeoutError):
            if monitor is not None:
                monitor.wait(MOMENT_SECONDS)
            return True
        return False

    def running(self, record: MachineRecord) -> Monitor:
        """The monitor of a machine. Raises `MachineError` if it does not run."""
        monitor = self._monitors.get(record.id)
        if monitor is None or not monitor.running:
            raise MachineError(f"{record.name} does not run")
        return monitor

    def client(self, record: MachineRecord) -> VmmClient:
        """The client of a machine's monitor. Raises `MachineError` if it does not run."""
        self.running(record)
        return self._clients[record.id]

    def guest(self, record: MachineRecord) -> Guest:
        """The guest of a machine that runs. Raises `MachineError` if it has no agent."""
        monitor, port = self.running(record), record.definition.agent
        if port is None:
            raise MachineError(f"{record.name} has no agent")
        return Guest(monitor, port=port, timeout=self._options.timeout)

    def held(self) -> set[str]:
        """The machines of which this process has the monitor or tap devices."""
        return self._monitors.keys() | self._taps.keys()

    def folders(self, machine: str) -> list[Path]:
        """The folders of a machine's monitors: one, if any. A jail's is named by its program.

        Raises OSError: a folder that cannot be read may have a monitor.
        """
        jails = [self._store.jails / program for program in os.listdir(self._store.jails)]
        found = [place / machine for place in (*jails, self._store.run)]
        return [folder for folder in found if os.path.lexists(folder)]

    def _new(self, record: MachineRecord) -> Monitor:
        jail, options = record.definition.jail, self._options
        common: dict[str, Any] = {
            "id": record.id,
            "enable_pci": record.definition.enable_pci,
            "timeout": options.timeout,
            "grace": options.grace,
            "detached": options.detached,
        }
        if jail is None:
            folder = self._store.run / record.id
            cwd = self._store.machines.path(record.id)
            return Monitor(options.binary, directory=folder, cwd=cwd, **common)
        common |= jail.model_dump() | {"uid": record.uid, "gid": record.uid}
        base = self._store.jails
        return JailedMonitor(options.jailer, options.program, chroot_base_dir=base, **common)

    def start(self, record: MachineRecord) -> VmmClient:
        """Starts a monitor without a configuration, with the files that the record names.

        Raises `MonitorError`, and ValueError or OSError for a file that it cannot have.
        """
        self.find(record.id)
        self.end(record.id)
        if record.definition.jail is None:
            in_thread(_remove_sockets, self._store.machines.path(record.id))
        self._make_taps(record)
        self._hold(record.id, self._new(record).start())
        for file in files_of(record.definition.configuration):
            self.admit(record, file.path, writable=not file.is_read_only)
        return self._clients[record.id]

    def _hold(self, machine: str, monitor: Monitor) -> None:
        self._monitors[machine] = monitor
        self._clients[machine] = self._client_of(machine, monitor)

    def _make_taps(self, record: MachineRecord) -> None:
        made = self._taps.setdefault(record.id, [])
        for wanted in record.definition.taps:
            from generated_vmm.process.network import Tap  # needs the extra `network`

            tap = Tap(**wanted.model_dump(), uid=record.uid or None)
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
                if writable or _can_be_linked(source, monitor.root):
                    monitor.link_in(source, inside, give=writable)
                else:
                    monitor.copy_in(source, inside)

    def find(self, machine: str) -> Monitor | End:
        """The monitor of a machine if it runs, or else how it has ended.

        Attaches to a monitor that an earlier process has left. Raises `MonitorError` if it cannot
        be attached to.
        """
        if machine not in self._monitors and (end := self._attach(machine)) is not None:
            self._remove_taps(machine)
            return end
        monitor = self._monitors[machine]
        return monitor if monitor.running else self.end(machine)

    def _attach(self, machine: str) -> End | None:
        """Attaches to the monitor of a machine, or says how it has ended."""
        folder = max(self.folders(machine), key=_recorded_at, default=None)
        if folder is None or not _recorded_at(folder):
            return _end_of(None, ())
        kind = Monitor if folder.parent == self._store.run else JailedMonitor
        try:
            self._hold(machine, kind.attach(folder))
        except MonitorExited as error:
            return _end_of(error.returncode, error.log)
        except MonitorError:
            if _recorded_at(folder):
                raise
            return _end_of(None, ())  # what does the work of a killed keeper has removed it
        return None

    def end(self, machine: str, grace: float | None = 0) -> End:
        """Ends the monitor that this process has, with its tap devices, and says how it ended."""
        monitor, end = self._monitors.get(machine), _end_of(None, ())
        if monitor is not None:
            log = [line.message for line in monitor.log]
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
        if monitor is not None and self._options.detached:
            with suppress(MonitorError):  # it has ended in this moment
                monitor.detach()
            self._forget(machine)
        self.end(machine)


def _end_of(returncode: int | None, log: Iterable[str]) -> End:
    last = tuple(log)[-LAST_LINES:]
    return End(how="lost" if returncode is None else "ended", returncode=returncode, log=last)


def _recorded_at(folder: Path) -> float:
    """When its keeper has last recorded a monitor; 0 if it was killed before that."""
    with suppress(FileNotFoundError):
        found = (folder / RECORD).stat()
        return found.st_mtime if found.st_size else 0.0
    return 0.0


def _can_be_linked(source: Path, root: Path) -> bool:
    """Whether a jailed user can open a link; a file of another file system has none."""
    found = source.stat()
    return bool(found.st_mode & stat.S_IROTH) and found.st_dev == root.stat().st_dev


def _remove_sockets(folder: Path) -> None:
    """Removes the sockets of vsock devices that a monitor without a jail has left."""
    for path in folder.iterdir():
        if stat.S_ISSOCK(path.lstat().st_mode):
            os.unlink(path)
