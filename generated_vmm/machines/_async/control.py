"""What the operations of all machines of a folder share."""

from __future__ import annotations

import os
import threading

from generated_vmm.concurrency._async import in_thread, sleep
from generated_vmm.machines._async.monitors import AsyncMonitors
from generated_vmm.machines.errors import MachineBusy, MachineError
from generated_vmm.machines.options import Options
from generated_vmm.machines.records import End, MachineRecord, Operation, Report, What, boot_id
from generated_vmm.machines.restart import after_end
from generated_vmm.machines.store import Store
from generated_vmm.process import MonitorError
from generated_vmm.transport.connection import start_over_in_children

LOOKS, LOOK_SECONDS = 100, 0.02
"""How often and after which pause an operation tries to begin while `reconcile` looks."""


class AsyncControl:
    """The store, its lock, the monitors, what is busy, and what `reconcile` will report."""

    def __init__(self, store: Store, options: Options, monitors: AsyncMonitors) -> None:
        self.store, self.options, self.monitors = store, options, monitors
        self._reports: list[Report] = []
        self._busy: dict[str, object] = {}
        self._lock: int | None = None
        self._is_closed = False
        self._turn = threading.RLock()  # so that nothing begins after the last end
        start_over_in_children(self)

    def open(self) -> None:
        """Lets operations begin again after `close`."""
        with self._turn:
            self._is_closed = False

    def take(self) -> None:
        """Takes control of the machines.

        Raises `MachineError` after `close`, and if another process has control.
        """
        with self._turn:
            self._take()

    def _take(self) -> None:
        if self._is_closed:
            raise MachineError(f"the machines of {self.store.folder} are closed")
        if self._lock is None:
            self._lock = self.store.take_control()

    def require_known(self, record: MachineRecord) -> None:
        """Raises `MachineError` for a machine that may run: another process may have its monitor.

        This process knows the machines that it controls, and those that shall not run.
        """
        if record.should_be != "Ended" and (self._is_closed or self._lock is None):
            how = "call `reconcile` first, and nothing after `close`"
            raise MachineError(f"this process does not control {record.name}: {how}")

    def start_over(self) -> None:
        """In a forked process: the parent has control, and its end is the end of the lock."""
        self._turn, self._busy, self._is_closed = threading.RLock(), {}, True
        self._unlock()

    async def close(self) -> None:
        """Lets nothing begin any more, and gives up each machine once its operation has ended.

        The lock is the last. Raises `MonitorError` for a monitor that does not end.
        """
        failure: MonitorError | None = None
        with self._turn:
            self._is_closed = True
        for machine in self.monitors.held():
            if self._is_free(machine):
                try:
                    await self.monitors.let_go(machine)
                except MonitorError as error:
                    failure = error
                finally:
                    del self._busy[machine]
        with self._turn:
            if not self._busy:
                self._unlock()
        if failure is not None:
            raise failure

    def _unlock(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    def _is_free(self, machine: str) -> bool:
        """Lets no operation begin for a moment; false if one runs."""
        look = object()
        with self._turn:
            return self._busy.setdefault(machine, look) is look

    async def occupy(self, operation: Operation) -> None:
        """Lets nothing else begin with a machine. Raises `MachineBusy` while an operation runs."""
        for _ in range(LOOKS):
            with self._turn:
                self._take()
                found = self._busy.setdefault(operation.machine, operation)
            if found is operation:
                return
            if isinstance(found, Operation):
                break
            await sleep(LOOK_SECONDS)
        raise MachineBusy(operation.name, self.store.operations.get(operation.machine))

    def watch(self, machine: str) -> bool:
        """Lets no operation begin for a moment; false if one runs, and after `close`."""
        with self._turn:
            return not self._is_closed and self._is_free(machine)

    async def leave(self, machine: str) -> None:
        """Lets something else begin."""
        with self._turn:
            del self._busy[machine]
        if self._is_closed:
            await self.close()

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
        found = operation or self.store.machines.readable(machine)
        name = found.name if found is not None else machine
        self._reports.append(
            Report(what=what, machine=machine, name=name, operation=operation, end=end, why=why)
        )

    def told(self) -> list[Report]:
        """The reports since the last call."""
        return [self._reports.pop(0) for _ in range(len(self._reports))]

    def record(self, machine: str) -> MachineRecord:
        """A machine. Raises `MachineError` if it does not exist."""
        record = self.store.machines.get(machine)
        if record is None:
            raise MachineError(
                f"no machine has the id {machine!r}, or not any more; `find` takes a name"
            )
        return record

    async def change(self, record: MachineRecord, **members: object) -> MachineRecord:
        """Stores a machine with other members, and returns it."""
        if members.get("started_at") is not None:
            members["boot"] = boot_id()
        changed = record.model_copy(update=members)
        await in_thread(self.store.machines.put, record.id, changed)
        return changed

    async def look(self, record: MachineRecord) -> MachineRecord:
        """Attaches to the monitor of a machine, unless it has ended: see `note`."""
        found = record.started_at and await self.monitors.find(record.id)
        return await self.note(record, found) if isinstance(found, End) else record

    async def note(self, record: MachineRecord, end: End) -> MachineRecord:
        """Stores that a monitor has ended by itself, to be reported by the next `reconcile`."""
        return await self.change(record, is_told=False, **after_end(record, end))
