# Derived from `generated_vmm/machines/_async/held.py` by `make codegen`. Do not edit.
"""What this process has of machines: control of their folder, and monitors."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from generated_vmm import VmmClient
from generated_vmm.concurrency._sync import finished, in_thread, sleep
from generated_vmm.errors import VmmError
from generated_vmm.guest import Guest
from generated_vmm.machines import records
from generated_vmm.machines.records import End, HostPath, MachineError, files_of
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


@dataclass(eq=False, repr=False, config=ConfigDict(extra="forbid"))
class Control:
    """The machines of a folder as this process has them: its lock, and the monitors.

    `binary` and `jailer` are the programs. `files` are files and folders of the host; machines may
    use no other files than these and their own. None: they may use any. If `detached`, monitors
    outlive this program. `timeout` is for a monitor to respond after its start, `grace` for a guest
    to shut down, and `snapshot_timeout` for writing or reading the memory of a machine, in seconds.
    """

    folder: HostPath
    binary: HostPath | Sequence[HostPath] = "firecracker"
    jailer: HostPath = "jailer"
    files: Sequence[HostPath] | None = None
    detached: bool = True
    timeout: float = 10.0
    grace: float = 5.0
    snapshot_timeout: float = 600.0

    def __post_init__(self) -> None:
        self._store = Store(self.folder)
        self._monitors: dict[str, Monitor] = {}
        self._taps: dict[str, list[Tap]] = {}
        self._reports: list[records.Report] = []
        """What the next `reconcile` reports."""
        self._busy: dict[str, object] = {}
        """What has a machine for itself, by the machine's id."""
        self._is_closed, self._is_reconciled = True, False
        self._lock: Descriptor | None = None
        start_over_in_children(self)

    def take_control(self) -> None:
        """Takes control of the machines. Raises `MachineError` if another process has it."""
        if self._lock is None:
            self._lock = self._store.take_control()
        self._is_closed = False

    def _require_control(self) -> None:
        if self._is_closed:
            raise MachineError(f"this process does not control the machines of {self.folder}")

    def start_over(self) -> None:
        """In a forked process: the parent has control, and its end is the end of the lock."""
        self._is_closed, self._lock = True, None
        self._busy.clear()

    def _require_allowed(self, path: str) -> Path:
        """The file, without links in its path. Raises ValueError unless machines may use it."""
        found = Path(path).resolve()
        allowed = [found] if self.files is None else [Path(each).resolve() for each in self.files]
        if not any(found.is_relative_to(each) for each in allowed):
            raise ValueError(f"{path} is in none of the folders whose files machines may use")
        return found

    def _operation_of(self, machine: str) -> records.Operation | None:
        """What is done with a machine, in this process or another one, or was left half done."""
        found = self._store.machines.find(machine)
        return found.operation if found is not None else None

    @contextmanager
    def _turn(self, machine: str, looks: int = 1) -> Iterator[bool]:
        """A block that has a machine for itself, or false if something else has it.

        It looks again if that does not record an operation.
        """
        what = object()
        try:
            while self._busy.setdefault(machine, what) is not what and looks > 1:
                looks = looks - 1 if self._operation_of(machine) is None else 0
                sleep(LOOK_SECONDS)
            yield self._busy.get(machine) is what
        finally:
            if self._busy.get(machine) is what:
                del self._busy[machine]
                if self._is_closed:
                    self.close()

    def close(self) -> None:
        """Gives up the machines, which continue to run if detached, without their tap devices.

        Nothing can begin then. An operation that runs comes to its end, and gives up its machine;
        the last one gives up control. Raises `MonitorError` for a monitor that does not end.
        """
        self._is_closed = True
        finished(self._close)

    def _close(self) -> None:
        failures = list[VmmError]()
        for machine in list(self._monitors):
            if machine not in self._busy:
                try:
                    Held(self, machine)._let_go()
                except VmmError as failure:
                    failures.append(failure)
        if not self._busy:
            self._lock = None
        if failures:
            raise failures[0]


class Held:
    """A machine of the store, with the monitor and the tap devices that this process has of it."""

    def __init__(self, control: Control, machine: str) -> None:
        self._control, self.id = control, machine
        self._store = control._store
        self._folder = self._store.machines.path(machine)

    @property
    def record(self) -> records.MachineRecord:
        """The machine as it is stored, which callers share and do not change.

        Raises `MachineError` if it does not exist any more.
        """
        return self._store.machines.get(self.id)

    @property
    def monitor(self) -> Monitor | None:
        """The monitor, with the guest's console and metrics; None unless this process has it."""
        return self._control._monitors.get(self.id)

    @property
    def is_up(self) -> bool:
        """Whether its monitor runs, as far as this process knows."""
        return self.monitor is not None and self.monitor.running

    def _running(self) -> Monitor:
        """Its monitor. Raises `MachineError` if it does not run."""
        if self.monitor is None or not self.is_up:
            name = self.record.name
            raise MachineError(f"{name} does not run, or `reconcile` must find its monitor")
        return self.monitor

    @property
    def client(self) -> VmmClient:
        """The client of the monitor. Raises `MachineError` if it does not run.

        What it sets is lost at the next start, unless the definition has it too: see `edit`.
        """
        return self._running().client

    def guest(self) -> Guest:
        """The guest, for programs and files. Raises `MachineError` if it does not run, or if the
        definition names no agent."""
        monitor, port = self._running(), self.record.definition.agent
        if port is None:
            raise MachineError(f"{self.record.name} has no agent")
        return Guest(monitor, port=port, timeout=self._control.timeout)

    def _begun(
        self, kind: records.Kind, by: str, target: str = "", name: str = ""
    ) -> records.Operation:
        """An operation that changes the machine, or makes a copy with this id and name."""
        own = self.record.name
        return records.Operation(
            kind=kind, machine=self.id, name=own, by=by, target=target, target_name=name
        )

    def _change(self, **members: object) -> None:
        """Stores the machine with other members."""
        changed = self.record.model_copy(update=members)
        in_thread(self._store.machines.put, self.id, changed)

    def _step(self, what: str, *, is_done: bool = False, **members: object) -> None:
        """Records the next step before it is done. Raises OSError: then it may not be done."""
        if (operation := self.record.operation) is not None:
            changes = {"step": what, "is_done": is_done}
            self._change(operation=operation.model_copy(update=changes), **members)

    def _commit(self, what: str, **members: object) -> None:
        """Stores what the machine should be, which the end of the operation makes true."""
        self._step(what, is_done=True, **members)

    def _require(self, *states: records.State) -> None:
        """Raises `MachineError` if the machine is in another state."""
        record = self.record
        state = record.should_be if record.started_at is not None else "Ended"
        if state not in states:
            wanted = " or ".join(states).lower()
            raise MachineError(f"{record.name} is {state.lower()}; it must be {wanted}")

    def _folders(self) -> list[Path]:
        """The folders of its monitors, the last one last. A jail's is named by its program.

        Raises OSError: a folder that cannot be read may have a monitor.
        """
        jails = [self._store.jails / program for program in os.listdir(self._store.jails)]
        found = [place / self.id for place in (*jails, self._store.run)]
        return sorted(filter(os.path.lexists, found), key=_changed_at)

    def _launch(self) -> VmmClient:
        """Starts a monitor without a configuration, with the files that the record names.

        Raises `MonitorError`, and ValueError or OSError for a file that it cannot have.
        """
        self._find()
        self._end()
        record = self.record
        self._make_taps(record)
        self._control._monitors[self.id] = self._new(record).start()
        for file in files_of(record.definition.configuration):
            self._admit(file.path, writable=not file.is_read_only)
        return self.client

    def _new(self, record: records.MachineRecord) -> Monitor:
        control, jail, binary = self._control, record.definition.jail, self._control.binary
        common: dict[str, Any] = {
            "id": self.id,
            "enable_pci": record.definition.enable_pci,
            "timeout": control.timeout,
            "grace": control.grace,
            "detached": control.detached,
        }
        if jail is None:
            folder = self._store.run / self.id
            return Monitor(binary, directory=folder, cwd=self._folder, **common)
        common |= jail.model_dump() | {"uid": record.uid, "gid": record.uid}
        program = binary if isinstance(binary, str | os.PathLike) else binary[0]
        return JailedMonitor(control.jailer, program, chroot_base_dir=self._store.jails, **common)

    def _make_taps(self, record: records.MachineRecord) -> None:
        for wanted in record.definition.taps:
            from generated_vmm.process.network import Tap  # needs the extra `network`

            tap = Tap(**wanted.model_dump(), uid=record.uid or None)
            tap.__enter__()
            self._control._taps.setdefault(self.id, []).append(tap)

    def _admit(self, path: str, *, writable: bool) -> None:
        """Gives a machine that runs access to a file, in a jail at the same path.

        Raises ValueError for a file that it may not use, and OSError.
        """
        monitor, source = self.monitor, self._folder / path
        if path.startswith("/"):
            source = self._control._require_allowed(path)
        if isinstance(monitor, JailedMonitor):
            inside = "/" + path.lstrip("/")
            with suppress(FileExistsError):
                if writable or _can_be_linked(source, monitor.root):
                    monitor.link_in(source, inside, give=writable)
                else:
                    monitor.copy_in(source, inside)

    def _find(self) -> End | None:
        """How its monitor has ended; None if it runs.

        Attaches to a monitor that an earlier process has left. Raises `MonitorError` if it cannot
        be attached to.
        """
        found = self._attach() if self.monitor is None else None
        if self.is_up:
            return None
        ended = self._end()
        return found or ended

    def _attach(self) -> End | None:
        end = None
        for folder in self._folders():
            kind = Monitor if folder.parent == self._store.run else JailedMonitor
            try:
                self._control._monitors[self.id] = kind.attach(folder)
            except MonitorExited as error:
                end = End(returncode=error.returncode, log=error.log[-LAST_LINES:])
            except MonitorError:
                if (folder / RECORD).exists():  # else its keeper was killed before
                    raise
        return end

    def _look(self) -> None:
        """Attaches to the monitor of a machine that has started.

        If it has ended by itself, stores that, to be reported by the next `reconcile`.
        """
        end = self._find() if self.record.started_at is not None else None
        if end is not None:
            self._change(**self.record.after(end))

    def _end(self, grace: float | None = 0) -> End:
        """Ends the monitor that this process has, with its tap devices, and says how it ended."""
        end = End()
        if (monitor := self.monitor) is not None:
            log = tuple(monitor.log)
            end = End(returncode=monitor.stop(grace), log=log[-LAST_LINES:])
            self._control._monitors.pop(self.id, None)
        for tap in self._control._taps.pop(self.id, ()):
            tap.__exit__(None, None, None)
        return end

    def _let_go(self) -> None:
        """Gives up its monitor, which continues to run if it is detached, or else ends."""
        if (monitor := self.monitor) is not None and self._control.detached:
            with suppress(MonitorError):  # it has ended in this moment
                monitor.detach()
            if monitor.returncode is not None:
                with suppress(OSError):
                    self._look()
            self._control._monitors.pop(self.id, None)
        self._end()


def _changed_at(folder: Path) -> float:
    """When its keeper has changed a folder last; 0 if that has removed it meanwhile."""
    with suppress(FileNotFoundError):
        return folder.stat().st_mtime
    return 0.0


def _can_be_linked(source: Path, root: Path) -> bool:
    """Whether a jailed user can read a hard link to a file; both must be on one file system."""
    found = source.stat()
    return bool(found.st_mode & stat.S_IROTH) and found.st_dev == root.stat().st_dev
