# Derived from `generated_vmm/machines/_async/held.py` by `make codegen`. Do not edit.
"""What this process has of machines: control of their folder, and monitors."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from generated_vmm import VmmClient
from generated_vmm.concurrency._sync import finished, in_thread, sleep
from generated_vmm.guest import Guest
from generated_vmm.machines import records
from generated_vmm.machines.definition import Options, files_of
from generated_vmm.machines.records import End, MachineError, Operation
from generated_vmm.machines.store import Store
from generated_vmm.process import JailedMonitor, Monitor, MonitorError, MonitorExited
from generated_vmm.process.keeper.record import RECORD
from generated_vmm.transport.connection import start_over_in_children

if TYPE_CHECKING:
    from generated_vmm.process.keeper.kernel import Descriptor
    from generated_vmm.process.network import Tap

LOOKS, LOOK_SECONDS = 100, 0.02
"""How often and after which pause an operation tries to begin while `reconcile` looks."""
LAST_LINES: Final = 5
"""The lines of a monitor's log that are stored with its end."""
UNTAKEN: Final = "call `reconcile` first"
CLOSED: Final = "they are closed"
FORKED: Final = "the process that it was forked from does: make `Machines` after the fork"


class Control:
    """The machines of a store as this process has them: its lock, and the monitors."""

    def __init__(self, store: Store, options: Options) -> None:
        self.store, self.options = store, options
        self.monitors: dict[str, Monitor] = {}
        self.taps: dict[str, list[Tap]] = {}
        self.reports: list[records.Report] = []
        """What the next `reconcile` reports."""
        self.busy: dict[str, object] = {}
        """What has a machine for itself, by the machine's id."""
        self.given_up = ""
        """Why this process controls nothing any more."""
        self.is_reconciled = False
        self._lock: Descriptor | None = None
        self._taking = threading.Lock()
        start_over_in_children(self)

    def take(self) -> None:
        """Takes control of the machines.

        Raises `MachineError` after `close`, and if another process has control.
        """
        with self._taking:
            if self._lock is None and not self.given_up:
                self._lock = self.store.take_control()
        self.require_taken()

    def require_taken(self) -> None:
        """Raises `MachineError` unless this process has control, and keeps it."""
        if self._lock is None or self.given_up:
            why = self.given_up or UNTAKEN
            raise MachineError(
                f"this process does not control the machines of {self.store.folder}: {why}"
            )

    def start_over(self) -> None:
        """In a forked process: the parent has control, and its end is the end of the lock."""
        self.given_up, self._lock, self._taking = FORKED, None, threading.Lock()
        self.busy.clear()

    def operation_of(self, machine: str) -> Operation | None:
        """What is done with a machine, in this process or another one, or was left half done."""
        found = self.store.machines.get(machine)
        return found.operation if found is not None else None

    @contextmanager
    def turn(self, machine: str, *, waits: bool = False) -> Iterator[bool]:
        """A block that has a machine for itself, or false if something else has it.

        It `waits` for something else that does not record an operation.
        """
        what = object()
        try:
            for _ in range(LOOKS):
                if self.busy.setdefault(machine, what) is what or not waits:
                    break
                if self.operation_of(machine) is not None:
                    break
                sleep(LOOK_SECONDS)
            yield self.busy.get(machine) is what
        finally:
            is_left = self.busy.get(machine) is what
            if is_left:
                del self.busy[machine]
            if is_left and self.given_up:
                self.close()

    def close(self) -> None:
        """Lets nothing begin any more, and gives up each machine once its operation has ended.

        The lock is the last. Raises `MonitorError` for a monitor that does not end.
        """
        self.given_up = self.given_up or CLOSED
        finished(self._close)

    def _close(self) -> None:
        failures, what = list[MonitorError](), object()
        for machine in list(self.monitors):
            try:
                if self.busy.setdefault(machine, what) is what:
                    Held(self, machine).let_go()
            except MonitorError as failure:
                failures.append(failure)
            finally:
                if self.busy.get(machine) is what:
                    del self.busy[machine]
        if not self.busy:
            self._lock = None
        if failures:
            raise failures[0]


class Held:
    """A machine of the store, with the monitor and the tap devices that this process has of it."""

    def __init__(self, control: Control, machine: str) -> None:
        self.control, self.id = control, machine
        self.store, self.options = control.store, control.options
        self.folder = self.store.machines.path(machine)

    @property
    def record(self) -> records.MachineRecord:
        """The machine as it is stored. Raises `MachineError` if it does not exist."""
        return self.store.machines.the(self.id)

    def begun(self, kind: records.Kind, by: str, target: str = "", name: str = "") -> Operation:
        """An operation that changes the machine, or makes a copy with this id and name."""
        own = self.record.name
        return Operation(
            kind=kind, machine=self.id, name=own, by=by, target=target, target_name=name
        )

    def change(self, **members: object) -> None:
        """Stores the machine with other members."""
        changed = self.record.model_copy(update=members)
        in_thread(self.store.machines.put, self.id, changed)

    def step(self, what: str, *, is_done: bool = False, **members: object) -> None:
        """Records the next step before it is done. Raises OSError: then it may not be done."""
        if (operation := self.record.operation) is not None:
            changes = {"step": what, "is_done": is_done}
            self.change(operation=operation.model_copy(update=changes), **members)

    def commit(self, what: str, **members: object) -> None:
        """Stores what the machine should be, which the end of the operation makes true."""
        self.step(what, is_done=True, **members)

    def require(self, *states: records.State) -> None:
        """Raises `MachineError` if the machine is in another state."""
        record = self.record
        state = record.should_be if record.started_at is not None else "Ended"
        if state not in states:
            wanted = " or ".join(states).lower()
            hint = "; resume() lets it run" if state == "Paused" else ""
            found = f"is {state.lower()}" if record.end or state != "Ended" else "was not started"
            raise MachineError(f"{record.name} {found}; it must be {wanted}{hint}")

    @property
    def monitor(self) -> Monitor | None:
        """The monitor; None unless this process has it."""
        return self.control.monitors.get(self.id)

    @property
    def is_up(self) -> bool:
        """Whether its monitor runs, as far as this process knows."""
        return self.monitor is not None and self.monitor.running

    def running(self) -> Monitor:
        """Its monitor. Raises `MachineError` if it does not run."""
        if self.monitor is None or not self.is_up:
            is_unseen = self.monitor is None and self.record.started_at is not None
            hint = ", or `reconcile` must find its monitor" if is_unseen else ": start() starts it"
            raise MachineError(f"{self.record.name} does not run{hint}")
        return self.monitor

    @property
    def client(self) -> VmmClient:
        """The client of its monitor. Raises `MachineError` if it does not run."""
        return self.running().client

    def guest(self) -> Guest:
        """Its guest. Raises `MachineError` if it does not run, or has no agent."""
        monitor, port = self.running(), self.record.definition.agent
        if port is None:
            raise MachineError(f"{self.record.name} has no agent")
        return Guest(monitor, port=port, timeout=self.options.timeout)

    def folders(self) -> list[Path]:
        """The folders of its monitors: one, if any. A jail's is named by its program.

        Raises OSError: a folder that cannot be read may have a monitor.
        """
        jails = [self.store.jails / program for program in os.listdir(self.store.jails)]
        found = [place / self.id for place in (*jails, self.store.run)]
        return [folder for folder in found if os.path.lexists(folder)]

    def start(self) -> VmmClient:
        """Starts a monitor without a configuration, with the files that the record names.

        Raises `MonitorError`, and ValueError or OSError for a file that it cannot have.
        """
        self.find()
        self.end()
        record = self.record
        self._make_taps(record)
        self.control.monitors[self.id] = self._new(record).start()
        for file in files_of(record.definition.configuration):
            self.admit(file.path, writable=not file.is_read_only)
        return self.client

    def _new(self, record: records.MachineRecord) -> Monitor:
        jail, options, store = record.definition.jail, self.options, self.store
        common: dict[str, Any] = {
            "id": self.id,
            "enable_pci": record.definition.enable_pci,
            "timeout": options.timeout,
            "grace": options.grace,
            "detached": options.detached,
        }
        if jail is None:
            folder = store.run / self.id
            return Monitor(options.binary, directory=folder, cwd=self.folder, **common)
        common |= jail.model_dump() | {"uid": record.uid, "gid": record.uid}
        common["chroot_base_dir"] = store.jails
        return JailedMonitor(options.jailer, options.program, **common)

    def _make_taps(self, record: records.MachineRecord) -> None:
        for wanted in record.definition.taps:
            from generated_vmm.process.network import Tap  # needs the extra `network`

            tap = Tap(**wanted.model_dump(), uid=record.uid or None)
            tap.__enter__()
            self.control.taps.setdefault(self.id, []).append(tap)

    def admit(self, path: str, *, writable: bool) -> None:
        """Gives a machine that runs access to a file, in a jail at the same path.

        Raises ValueError for a file that it may not use, and OSError.
        """
        monitor, record = self.monitor, self.record
        source = self.folder / path
        if path.startswith("/"):
            source = self.options.require_allowed(path)
            in_thread(self.store.require_free, record, source, writable=writable)
        elif ".." in source.parts:
            raise ValueError(f"{path} is not in the machine's own folder")
        if isinstance(monitor, JailedMonitor):
            inside = "/" + path.lstrip("/")
            with suppress(FileExistsError):
                if writable or _can_be_linked(source, monitor.root):
                    monitor.link_in(source, inside, give=writable)
                else:
                    monitor.copy_in(source, inside)

    def find(self) -> End | None:
        """How its monitor has ended; None if it runs.

        Attaches to a monitor that an earlier process has left. Raises `MonitorError` if it cannot
        be attached to.
        """
        found = self._attach() if self.monitor is None else None
        if self.is_up:
            return None
        ended = self.end()
        return found or ended

    def _attach(self) -> End | None:
        folder = max(self.folders(), key=_recorded_at, default=None)
        if folder is None or not _recorded_at(folder):
            return None
        kind = Monitor if folder.parent == self.store.run else JailedMonitor
        try:
            self.control.monitors[self.id] = kind.attach(folder)
        except MonitorExited as error:
            return End(returncode=error.returncode, log=error.log[-LAST_LINES:])
        except MonitorError:
            if _recorded_at(folder):  # else what does the work of a killed keeper has removed it
                raise
        return None

    def look(self) -> None:
        """Attaches to the monitor of a machine that has started; if it has ended, see `note`."""
        end = self.find() if self.record.started_at is not None else None
        if end is not None:
            self.note(end)

    def note(self, end: End) -> None:
        """Stores that its monitor has ended by itself, to be reported by the next `reconcile`."""
        self.change(**self.record.after(end))

    def end(self, grace: float | None = 0) -> End:
        """Ends the monitor that this process has, with its tap devices, and says how it ended."""
        end = End()
        if (monitor := self.monitor) is not None:
            log = tuple(line.message for line in monitor.log)
            end = End(returncode=monitor.stop(grace), log=log[-LAST_LINES:])
            self.control.monitors.pop(self.id, None)
        for tap in self.control.taps.pop(self.id, ()):
            tap.__exit__(None, None, None)
        return end

    def let_go(self) -> None:
        """Gives up its monitor, which continues to run if it is detached, or else ends."""
        if self.monitor is not None and self.options.detached:
            with suppress(MonitorError):  # it has ended in this moment
                self.monitor.detach()
            self.control.monitors.pop(self.id, None)
        self.end()


def _recorded_at(folder: Path) -> float:
    """When its keeper has last recorded a monitor; 0 if it was killed before that."""
    with suppress(FileNotFoundError):
        found = (folder / RECORD).stat()
        return found.st_mtime if found.st_size else 0.0
    return 0.0


def _can_be_linked(source: Path, root: Path) -> bool:
    """Whether a jailed user can read a hard link to a file; both must be on one file system."""
    found = source.stat()
    return bool(found.st_mode & stat.S_IROTH) and found.st_dev == root.stat().st_dev
