# Derived from `generated_vmm/machines/_async/machines.py` by `make codegen`. Do not edit.
"""The machines of a folder: made, found, and reconciled with what runs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack

from generated_vmm.concurrency._sync import Context, in_thread
from generated_vmm.errors import VmmError
from generated_vmm.facade.elsewhere import MACHINES
from generated_vmm.machines._sync.control import Control
from generated_vmm.machines._sync.held import Held
from generated_vmm.machines._sync.machine import Machine, Snapshot
from generated_vmm.machines._sync.making import create
from generated_vmm.machines._sync.operation import recover, remove_machine, start_if_due
from generated_vmm.machines.copies import MEMORY
from generated_vmm.machines.definition import Definition, require_definition
from generated_vmm.machines.errors import MachineError, unknown
from generated_vmm.machines.options import HostPath, MachinesOptions, Options
from generated_vmm.machines.records import MachineRecord, Operation, Report, boot_id
from generated_vmm.machines.store import ID, Store
from generated_vmm.misuse import Told, require_kind, require_options


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
        self._store, self._is_tidy = Store(folder), False
        self._control = Control(self._store, Options(**options))

    def take_control(self) -> None:
        """Takes control of the machines now. Raises `MachineError` if another process has it."""
        self._control.take()

    def _machine(self, machine: str) -> Machine:
        return Machine(self._control, self._control.of(machine))

    def _those(self, records: Iterable[MachineRecord]) -> list[Machine]:
        named = sorted(records, key=lambda record: record.name)
        return [self._machine(record.id) for record in named]

    def all(self) -> list[Machine]:
        """Every machine, by name; those that are being made are in `operations`."""
        return self._those(self._store.whole())

    def get(self, machine: str) -> Machine:
        """The machine with this id. Raises `MachineError` if there is none."""
        require_kind("machine", machine, "the id of a machine, such as machine.id", str)
        is_id = ID.fullmatch(machine) is not None  # else it may be a path
        record = self._store.machines.get(machine) if is_id else None
        if record is None or not record.is_whole:
            raise unknown(machine)
        return self._machine(machine)

    def find(self, name: str) -> Machine | None:
        """The machine with this name, if there is one."""
        require_kind("name", name, "the name of a machine", str)
        found = (record for record in self._store.whole() if record.name == name)
        return next(iter(self._those(found)), None)

    def operations(self) -> list[Operation]:
        """What runs now, in this process or another one, and what was left half done."""
        return self._store.operations()

    def written(self, operation: Operation) -> int | None:
        """The bytes of memory that a snapshot or a clone has written so far; None before that."""
        shelf = self._store.snapshots if operation.kind == "snapshot" else self._store.machines
        with suppress(OSError):
            return (shelf.path(operation.target) / MEMORY).stat().st_blocks * 512
        return None

    def snapshots(self) -> list[Snapshot]:
        """Every whole snapshot, the newest first."""
        found = self._store.snapshots.all()
        found.sort(key=lambda one: one.created_at, reverse=True)
        return [Snapshot(self._control, record.id) for record in found]

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
        made = create(self._control, name, definition, by, copy=copy_disks)
        return Machine(self._control, made)

    def reconcile(self) -> list[Report]:
        """Makes true what should be true; returns what was found and done since the last call.

        Operations that a killed process has left are finished or undone. Monitors that still run
        are attached. Ends are stored, and machines restarted as their definitions say. After a
        restart of the host, machines with `autostart` start in their order. Call it when the
        program starts, and then about every second. Raises `MachineError` if another process
        controls the machines.
        """
        control, store = self._control, self._store
        control.take()
        control.reconciled_at = math.inf
        with suppress(MachineError):  # tried again by the next call
            if not self._is_tidy:
                in_thread(store.tidy_snapshots)
                self._is_tidy = True
        for machine in sorted(store.machines.ids(), key=self._place):
            held, look = control.of(machine), object()
            try:
                with control.leaving(held, look):
                    if not control.watch(held, look):
                        continue
                    self._bring_in_order(held)
                start_if_due(control, held)
            except (VmmError, OSError, ValueError, Warning) as error:
                control.tell(self._failed(machine, error))
        return control.told()

    def _failed(self, machine: str, error: Exception) -> Report:
        record = self._store.machines.readable(machine)
        name, begun = (record.name, record.operation) if record is not None else (machine, None)
        return Report(what="failed", machine=machine, name=name, operation=begun, why=str(error))

    def _place(self, machine: str) -> tuple[bool, int, str]:
        """What is half made comes first."""
        record = self._store.machines.readable(machine)
        if record is None:
            return False, 0, ""
        return record.is_whole, record.definition.order, record.name

    def _bring_in_order(self, held: Held) -> None:
        control, machines = self._control, self._store.machines
        record = machines.get(held.id)
        if record is not None and record.operation is not None:
            recover(control, held, record.operation)
        if machines.get(held.id) is None:  # it is deleted, or its creation was not recorded
            return remove_machine(held)
        record = held.look()
        if not record.is_told and record.end is not None:
            name, end = record.name, record.end
            control.tell(Report(what=end.how, machine=held.id, name=name, end=end))
            record = held.change(is_told=True)
        if record.boot != boot_id() and record.started_at is None:  # nothing outlives a boot
            starts = {"should_be": "Running", "retry_at": None}
            changes = starts if record.definition.autostart else {}
            held.change(boot=boot_id(), **changes)

    def close(self) -> None:
        """Gives up the machines, which continue to run if detached, without their tap devices.

        Nothing can begin then, until the next `with`. An operation that runs comes to its
        end, and is the last that has control of its machine.
        """
        self._control.close()

    def __enter__(self) -> Self:
        self._control.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
