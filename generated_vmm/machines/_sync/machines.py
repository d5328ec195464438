# Derived from `generated_vmm/machines/_async/machines.py` by `make codegen`. Do not edit.
"""The machines of a folder: made, found, and reconciled with what runs."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Self, Unpack

from generated_vmm.concurrency._sync import Context, in_thread
from generated_vmm.errors import VmmError
from generated_vmm.facade.elsewhere import MACHINES
from generated_vmm.machines import records
from generated_vmm.machines._sync.held import Control, Held
from generated_vmm.machines._sync.machine import Machine, Snapshot
from generated_vmm.machines._sync.making import start_again, with_copies
from generated_vmm.machines._sync.operation import carry_out, recover, remove_machine
from generated_vmm.machines.copies import MEMORY
from generated_vmm.machines.definition import (
    Definition,
    HostPath,
    MachinesOptions,
    Options,
    require_definition,
)
from generated_vmm.machines.store import ID, NEW, Store
from generated_vmm.misuse import Records, Told, require_kind, require_options


class Machines(Context, Told):
    """The machines in a folder, which outlive this program.

        with Machines("/var/lib/machines", binary="firecracker") as machines:
            for report in machines.reconcile():
                print(report.what, report.name)
            web = machines.create("web", Definition(configuration=configuration))
            web.start()

    One process at a time controls the machines, from its first operation until `close`; others
    may look. If not `detached`, the monitors end with that process. `files` are the files and
    folders of the host that machines may use, None for any. Raises `MachineError` for a folder of
    another user or a later format.
    """

    _elsewhere = MACHINES

    def __init__(self, folder: HostPath, **options: Unpack[MachinesOptions]) -> None:
        require_options(options, MachinesOptions.__annotations__)
        self._store = Store(folder)
        self._control = Control(self._store, Options(**options))

    def take_control(self) -> None:
        """Takes control of the machines now. Raises `MachineError` if another process has it."""
        self._control.take()

    def _machine(self, machine: str) -> Machine:
        return Machine(Held(self._control, machine))

    def _those(self, records: Iterable[records.MachineRecord]) -> list[Machine]:
        named = sorted(records, key=lambda record: record.name)
        return Records(self._machine(record.id) for record in named)

    def all(self) -> list[Machine]:
        """Every machine, by name; those that are being made are in `operations`."""
        return self._those(self._store.whole())

    def get(self, machine: str) -> Machine:
        """The machine with this id. Raises `MachineError` if there is none."""
        require_kind("machine", machine, "the id of a machine, such as machine.id", str)
        machines, is_id = self._store.machines, ID.fullmatch(machine)  # else it may be a path
        record = machines.get(machine) if is_id else None
        if record is None or not record.is_whole:
            raise machines.unknown(machine)
        return self._machine(machine)

    def find(self, name: str) -> Machine | None:
        """The machine with this name, if there is one."""
        require_kind("name", name, "the name of a machine", str)
        found = (record for record in self._store.whole() if record.name == name)
        return next(iter(self._those(found)), None)

    def operations(self) -> list[records.Operation]:
        """What runs now, in this process or another one, and what was left half done."""
        made = (one.operation for one in self._store.machines.all())
        return Records(each for each in made if each is not None)

    def written(self, operation: records.Operation) -> int | None:
        """The bytes of memory that a snapshot or a clone has written so far; None before that."""
        written = self._store.machines.path(operation.machine) / NEW / MEMORY
        with suppress(OSError):
            return written.stat().st_blocks * 512
        return None

    def snapshots(self) -> list[Snapshot]:
        """Every whole snapshot, the newest first."""
        found = self._store.snapshots.all()
        found.sort(key=lambda one: one.created_at, reverse=True)
        return Records(Snapshot(self._control, record) for record in found)

    def users_of(self, path: HostPath) -> list[Machine]:
        """The machines that use a file, under whatever path.

        Raises `MachineError` if the record of a machine cannot be read.
        """
        users = {record.id: record for record, _ in self._store.users_of(Path(path))}
        return self._those(users.values())

    def create(
        self, name: str, definition: Definition, *, copy_disks: bool = True, by: str = ""
    ) -> Machine:
        """Makes a machine, which does not run yet.

        It gets copies of the disks that it writes to, which share blocks where the file system can.
        Without `copy_disks` it writes to the given ones. Raises `MachineError` for a name that is
        taken, ValueError for a file that it may not use, and OSError; nothing is left then. Emits a
        RuntimeWarning for a disk that is not raw, such as a qcow2 image.
        """
        require_definition(definition)
        operation = records.creation("create", name, by)
        held = Held(self._control, operation.machine)
        with carry_out(held, operation, definition):
            made = with_copies(held, definition, [] if copy_disks else None)
            held.commit("appears", definition=made)
        return Machine(held)

    def reconcile(self) -> list[records.Report]:
        """Makes true what should be true; returns what was found and done since the last call.

        Operations that a killed process has left are finished or undone. Monitors that still run
        are attached. Ends are stored, and machines restarted as their definitions say. After a
        restart of the host, machines with `autostart` start in their order. Call it when the
        program starts, and then about every second. Raises `MachineError` if another process
        controls the machines.
        """
        control = self._control
        control.take()
        control.is_reconciled = True
        with suppress(OSError):  # the next call tries again
            in_thread(self._store.tidy_snapshots)
        for machine in sorted(self._store.machines.ids(), key=self._place):
            try:
                with control.turn(machine) as is_ours:
                    if is_ours and not control.given_up:
                        self._bring_in_order(Held(control, machine))
            except (VmmError, OSError, ValueError, Warning) as error:  # that is an error here
                control.reports.append(self._failed(machine, error))
        return [control.reports.pop(0) for _ in range(len(control.reports))]

    def _failed(self, machine: str, error: Exception) -> records.Report:
        record = self._store.machines.readable(machine)
        name, begun = (record.name, record.operation) if record is not None else (machine, None)
        return records.Report(
            what="failed", machine=machine, name=name, operation=begun, why=str(error)
        )

    def _place(self, machine: str) -> tuple[bool, int, str]:
        """What is half made comes first."""
        record = self._store.machines.readable(machine)
        if record is None:
            return False, 0, ""
        return record.is_whole, record.definition.order, record.name

    def _bring_in_order(self, held: Held) -> None:
        if self._control.operation_of(held.id) is not None:
            recover(held)
        if self._store.machines.get(held.id) is None:  # it is deleted
            return remove_machine(held)
        held.look()
        record, end = held.record, held.record.end
        if not record.is_told and end is not None:
            report = records.Report(what=end.how, machine=held.id, name=record.name, end=end)
            self._control.reports.append(report)
            held.change(is_told=True)
        boot = records.boot_id()
        if record.boot != boot and record.started_at is None:  # nothing outlives a boot
            starts = {"should_be": "Running", "retry_at": None}
            held.change(boot=boot, **starts if record.definition.autostart else {})
        if held.record.is_due:
            start_again(held)

    def close(self) -> None:
        """Gives up the machines, which continue to run if detached, without their tap devices.

        Nothing can begin then, until the next `with`. An operation that runs comes to its
        end, and is the last that has control of its machine.
        """
        self._control.close()

    def __enter__(self) -> Self:
        self._control.given_up = ""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
