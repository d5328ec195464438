# Derived from `generated_vmm/machines/_async/machines.py` by `make codegen`. Do not edit.
"""The machines of a folder: made, found, and reconciled with what runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from generated_vmm import VmmClient
from generated_vmm.concurrency._sync import in_thread, sleep
from generated_vmm.errors import VmmError
from generated_vmm.machines._sync.machine import Machine, Snapshot
from generated_vmm.machines._sync.making import create
from generated_vmm.machines._sync.memory import MEMORY
from generated_vmm.machines._sync.monitors import Monitors
from generated_vmm.machines._sync.operation import LOOK_SECONDS, LOOKS, Control, look, recover
from generated_vmm.machines.definition import Definition, files_of
from generated_vmm.machines.errors import MachineBusy, MachineError
from generated_vmm.machines.files import identity
from generated_vmm.machines.options import HostPath, Options
from generated_vmm.machines.records import End, MachineRecord, Operation, Report, boot_id, now
from generated_vmm.machines.restart import is_due, next_try
from generated_vmm.machines.store import Store
from generated_vmm.process import Monitor


class Machines:
    """The machines in a folder, which outlive this program.

        with Machines("/var/lib/machines", binary="firecracker") as machines:
            for report in machines.reconcile():
                print(report.what, report.name)
            web = machines.create("web", Definition(configuration=configuration))
            web.start()

    One process at a time controls the machines, from its first operation until `close`; others
    may look. If not `detached`, the monitors end with that process. `files` are the files and
    folders of the host that machines may use, None for any. `client_of` makes the client of a
    machine's monitor, for example to record its calls. Raises `MachineError` for a folder of
    another user or a later format.
    """

    def __init__(
        self,
        folder: HostPath,
        *,
        binary: HostPath | Sequence[HostPath] = "firecracker",
        jailer: HostPath = "jailer",
        files: Sequence[HostPath] | None = None,
        detached: bool = True,
        timeout: float = 10.0,
        grace: float = 5.0,
        snapshot_timeout: float = 600.0,
        client_of: Callable[[str, Monitor], VmmClient] | None = None,
    ) -> None:
        options = Options(
            binary=binary,
            jailer=jailer,
            files=files,
            detached=detached,
            timeout=timeout,
            grace=grace,
            snapshot_timeout=snapshot_timeout,
        )
        self._store, self._is_tidy = Store(folder), False
        self._control = Control(self._store, options, Monitors(self._store, options, client_of))

    def take_control(self) -> None:
        """Takes control of the machines now. Raises `MachineError` if another process has it."""
        self._control.take()

    def all(self) -> list[Machine]:
        """Every machine, by name; those that are being made are in `operations`."""
        found = [(record.name, record.id) for record in self._records()]
        return [Machine(self._control, machine) for _, machine in sorted(found)]

    def get(self, machine: str) -> Machine:
        """The machine with this id. Raises `MachineError` if there is none."""
        self._control.record(machine)
        return Machine(self._control, machine)

    def find(self, name: str) -> Machine | None:
        """The machine with this name, if there is one."""
        found = next((record for record in self._records() if record.name == name), None)
        return Machine(self._control, found.id) if found is not None else None

    def operations(self) -> list[Operation]:
        """What runs now, in this process or another one, and what was left half done."""
        found = (self._store.operation(machine) for machine in self._store.ids())
        return [operation for operation in found if operation is not None]

    def written(self, operation: Operation) -> int | None:
        """The bytes of memory that a snapshot or a clone has written so far; None before that."""
        folders = (
            self._store.new_snapshot_path(operation.target),
            self._store.path(operation.target),
        )
        for folder in folders if operation.target else ():
            with suppress(OSError):
                return (folder / MEMORY).stat().st_blocks * 512
        return None

    def snapshots(self) -> list[Snapshot]:
        """Every whole snapshot, the newest first."""
        found = [Snapshot(self._control, snapshot) for snapshot in self._store.snapshot_ids()]
        return sorted(found, key=lambda each: each.created_at, reverse=True)

    def users_of(self, path: HostPath) -> list[Machine]:
        """The machines that use a file, under whatever path."""
        wanted = identity(Path(path))
        return [
            Machine(self._control, record.id)
            for record in self._records()
            if any(
                identity(self._store.path(record.id) / used) == wanted
                for used in files_of(record.definition.configuration)
            )
        ]

    def _records(self) -> list[MachineRecord]:
        found = (self._store.record(machine) for machine in self._store.ids())
        return [record for record in found if record is not None]

    def create(
        self, name: str, definition: Definition, *, copy_disks: bool = True, by: str = ""
    ) -> Machine:
        """Makes a machine, which does not run yet.

        It gets copies of the disks that it writes to, which share blocks where the file system can.
        Without `copy_disks` it writes to the given ones. Raises `MachineError` for a name that is
        taken, ValueError for a file that it may not use, and OSError; nothing is left then.
        """
        made = create(self._control, name, definition, by, copies=copy_disks)
        return Machine(self._control, made)

    def reconcile(self) -> list[Report]:
        """Makes true what should be true; returns what was found and done.

        Operations that a killed process has left are finished or undone. Monitors that still run
        are attached. Ends are stored, and machines restarted as their definitions say. After a
        restart of the host, machines with `autostart` start in their order. Call it when the
        program starts, and then about every second. Raises `MachineError` if another process
        controls the machines.
        """
        self._control.take()
        if not self._is_tidy:
            in_thread(self._store.tidy_snapshots)
            self._is_tidy = True
        reports: list[Report] = []
        for machine in self._store.ids():
            reports += self._recover(machine)
        for record in sorted(self._records(), key=lambda one: (one.definition.order, one.name)):
            reports += self._restore_order(record.id)
        return reports

    def _recover(self, machine: str) -> list[Report]:
        """Finishes or undoes what was left half done; a running operation is left alone."""
        operation = self._store.operation(machine)
        if operation is None and self._store.record(machine) is not None:
            return []
        name = operation.name if operation is not None else machine
        try:
            lease = self._store.lease(machine, name)
        except MachineError:  # it runs, or was just deleted
            return []
        try:
            operation = self._store.operation(machine)
            if operation is None:
                if self._store.record(machine) is None:  # killed before it was recorded
                    in_thread(self._store.remove_machine, machine)
                return []
            is_finished = recover(self._control, operation)
            return [
                Report(
                    what="finished" if is_finished else "undone",
                    machine=machine,
                    name=name,
                    operation=operation,
                )
            ]
        except (VmmError, OSError) as error:
            why = str(error)
            return [Report(what="failed", machine=machine, name=name, operation=operation, why=why)]
        finally:
            lease.release()

    def _restore_order(self, machine: str) -> list[Report]:
        reports: list[Report] = []
        if self._is_in_order(machine):
            return []
        try:
            lease = self._store.lease(machine, machine)
        except (MachineBusy, MachineError):
            return []
        try:
            record = self._control.record(machine)
            found = self._looked(record)
            if found is not None:
                what = found.how
                reports = [Report(what=what, machine=machine, name=record.name, end=found)]
            record = self._control.record(machine)
            if record.boot != boot_id():
                record = self._control.change(record, **_after_boot(record))
        except (VmmError, OSError, ValueError) as error:
            return [Report(what="failed", machine=machine, name=machine, why=str(error))]
        finally:
            lease.release()
        return reports + (self._start(record) if is_due(record) else [])

    def _looked(self, record: MachineRecord) -> End | None:
        """How the monitor has ended; waits a moment for the end of one of another boot.

        Nothing outlives a boot, but a keeper may not have noticed the end of its monitor yet.
        """
        found = look(self._control, record)
        for _ in range(LOOKS if record.boot != boot_id() and record.started_at else 0):
            if found is None:
                sleep(LOOK_SECONDS)
                found = look(self._control, record)
        return found

    def _is_in_order(self, machine: str) -> bool:
        record, monitor = self._store.record(machine), self._control.monitors.get(machine)
        if record is not None and record.boot != boot_id():
            return False
        if record is None or record.started_at is None:
            return record is None or not is_due(record)
        return monitor is not None and monitor.running

    def _start(self, record: MachineRecord) -> list[Report]:
        """Starts a machine that should run; after a failure, it waits longer."""
        machine = Machine(self._control, record.id)
        try:
            machine.start(by="restart policy")
            return [Report(what="started", machine=record.id, name=record.name)]
        except MachineBusy:
            return []
        except (VmmError, OSError, ValueError) as error:
            failures = record.failures + 1
            changes = {"failures": failures, "retry_at": next_try(failures, now())}
            current = self._store.record(record.id)
            if current is not None and current.started_at is None:
                self._control.change(current, **changes)
            why = str(error)
            return [Report(what="failed", machine=record.id, name=record.name, why=why)]

    def close(self) -> None:
        """Gives up the control of the machines, which continue to run if detached.

        Tap devices of machines end with it.
        """
        for machine in self._control.monitors.held:
            self._control.monitors.let_go(machine)
        self._control.give_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _after_boot(record: MachineRecord) -> dict[str, object]:
    """The members of a machine's record once it was looked at in this boot of the host."""
    starts = record.definition.autostart and record.started_at is None
    return {"boot": boot_id()} | ({"should_run": True, "retry_at": None} if starts else {})
