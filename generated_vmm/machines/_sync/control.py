# Derived from `generated_vmm/machines/_async/control.py` by `make codegen`. Do not edit.
"""What the operations of all machines of a folder share."""

from __future__ import annotations

import os

from generated_vmm.concurrency._sync import in_thread, sleep
from generated_vmm.machines._sync.monitors import Monitors
from generated_vmm.machines.errors import MachineBusy, MachineError
from generated_vmm.machines.options import Options
from generated_vmm.machines.records import End, MachineRecord, Operation, Report, What, boot_id
from generated_vmm.machines.restart import after_end
from generated_vmm.machines.store import Store

LOOKS, LOOK_SECONDS = 100, 0.02
"""How often and after which pause an operation tries to begin while `reconcile` looks."""


class Control:
    """The store, its lock, the monitors, what is busy, and what `reconcile` will report."""

    def __init__(self, store: Store, options: Options, monitors: Monitors) -> None:
        self.store, self.options, self.monitors = store, options, monitors
        self.reports: list[Report] = []
        self._busy: dict[str, object] = {}
        self._lock: int | None = None
        self._is_over = False

    def take(self) -> None:
        """Takes control of the machines. Raises `MachineError` if another process has it."""
        self._is_over = False
        if self._lock is None:
            self._lock = self.store.take_control()

    def give_up(self) -> None:
        """Gives up the control of the machines, once no operation runs."""
        self._is_over = True
        if self._lock is not None and not self._busy:
            os.close(self._lock)
            self._lock = None

    def occupy(self, operation: Operation) -> None:
        """Lets nothing else begin with a machine. Raises `MachineBusy` while an operation runs."""
        for _ in range(LOOKS):
            found = self._busy.setdefault(operation.machine, operation)
            if found is operation:
                return
            if isinstance(found, Operation):
                break
            sleep(LOOK_SECONDS)
        raise MachineBusy(operation.name, self.store.operations.get(operation.machine))

    def watch(self, machine: str) -> bool:
        """Lets no operation begin for a moment; false if one runs."""
        look = object()
        return self._busy.setdefault(machine, look) is look

    def leave(self, machine: str) -> None:
        """Lets something else begin."""
        del self._busy[machine]
        if self._is_over:
            self.give_up()

    def tell(
        self,
        what: What,
        machine: str,
        *,
        operation: Operation | None = None,
        end: End | None = None,
        why: str = "",
    ) -> None:
        """Keeps a report for the next `reconcile`."""
        found = operation or self.store.machines.get(machine)
        name = found.name if found is not None else machine
        self.reports.append(
            Report(what=what, machine=machine, name=name, operation=operation, end=end, why=why)
        )

    def record(self, machine: str) -> MachineRecord:
        """A machine. Raises `MachineError` if it does not exist."""
        record = self.store.machines.get(machine)
        if record is None:
            raise MachineError(
                f"no machine has the id {machine!r}, or not any more; `find` takes a name"
            )
        return record

    def change(self, record: MachineRecord, **members: object) -> MachineRecord:
        """Stores a machine with other members, and returns it."""
        if members.get("started_at") is not None:
            members["boot"] = boot_id()
        changed = record.model_copy(update=members)
        in_thread(self.store.machines.put, record.id, changed)
        return changed

    def look(self, record: MachineRecord) -> MachineRecord:
        """Attaches to the monitor of a machine, unless it has ended: see `note`."""
        found = record.started_at and self.monitors.find(record)
        return self.note(record, found) if isinstance(found, End) else record

    def note(self, record: MachineRecord, end: End) -> MachineRecord:
        """Stores that a monitor has ended by itself, to be reported by the next `reconcile`."""
        return self.change(record, is_told=False, **after_end(record, end))
