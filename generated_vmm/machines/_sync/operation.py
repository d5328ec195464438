# Derived from `generated_vmm/machines/_async/operation.py` by `make codegen`. Do not edit.
"""Operations: recorded before their first step, and finished or undone after a failure."""

from __future__ import annotations

from types import TracebackType
from typing import Self, get_args

from generated_vmm.concurrency._sync import in_thread
from generated_vmm.errors import VmmError
from generated_vmm.machines._sync.conforming import conform, recover, tidy, wind_up
from generated_vmm.machines._sync.control import Control
from generated_vmm.machines._sync.furnish import shown
from generated_vmm.machines.definition import Definition
from generated_vmm.machines.errors import MachineError
from generated_vmm.machines.records import MachineRecord, Operation, State
from generated_vmm.process import MonitorExited

FOR_GOOD = ("stop", "delete")
"""Operations that are not undone once they have begun."""


class Run:
    """An operation that this process carries out: a block, which begins with its record.

    The block does what can be undone, and then commits: it stores what the machine should be. The
    end of the block makes the machine what is stored, as `recover` does after a kill. If anything
    raises, the machine becomes again what was stored before.
    """

    def __init__(self, control: Control, operation: Operation, grace: float | None = None) -> None:
        self.control, self.operation = control, operation
        self._grace = grace
        self._before: MachineRecord | None = None

    @property
    def record(self) -> MachineRecord:
        """The machine as it is stored. Raises `MachineError` if it does not exist."""
        return self.control.record(self.operation.machine)

    def __enter__(self) -> Self:
        self.control.occupy(self.operation)
        try:
            self._begin()
        except BaseException as error:
            self._end(error)
            raise
        return self

    def _begin(self) -> None:
        store, operation = self.control.store, self.operation
        if operation.target == operation.machine:
            self.operation = in_thread(store.begin_machine, operation)
            return
        left = store.operations.get(operation.machine)
        if left is not None:
            self._recover(left)
        self._before = self._found()
        in_thread(store.operations.put, operation.machine, operation)

    def _recover(self, left: Operation) -> None:
        try:
            recover(self.control, left)
        except VmmError:
            if self.operation.kind not in FOR_GOOD:
                raise
            self.control.monitors.end(left.machine)  # it does not respond
            recover(self.control, left)

    def _found(self) -> MachineRecord:
        """The machine with its present state, which a call may have changed that was no operation.

        One that does not respond can still be stopped.
        """
        record = self.control.look(self.record)
        if self.operation.kind in FOR_GOOD or not self.control.monitors.is_up(record.id):
            return record
        state = (self.control.monitors.client(record).get_instance_info()).state
        if state == record.should_be or state not in get_args(State):
            return record
        return self.control.change(record, should_be=state)

    def require(self, *states: State) -> None:
        """Raises `MachineError` if the machine is in another state."""
        record = self.record
        state = record.should_be if record.started_at is not None else "Ended"
        if state not in states:
            wanted = " or ".join(states).lower()
            raise MachineError(f"{record.name} is {state.lower()}; it must be {wanted}")

    def step(self, step: str) -> None:
        """Records the next step before it is done. Raises OSError: then it may not be done."""
        self.operation = self.operation.model_copy(update={"step": step})
        put = self.control.store.operations.put
        in_thread(put, self.operation.machine, self.operation)

    def commit(self, step: str, **members: object) -> None:
        """Stores what the machine should be, which the end of the block makes true."""
        self.step(step)
        self.control.change(self.record, last_operation=self.operation.id, **members)

    def of(self, definition: Definition) -> MachineRecord:
        """The machine that the operation makes."""
        made = self.operation
        return MachineRecord(
            id=made.machine,
            name=made.name,
            definition=definition,
            uid=made.uid or 0,
            last_operation=made.id,
        )

    def appear(self, record: MachineRecord, **members: object) -> None:
        """Stores a new machine."""
        self.step("appears")
        self.control.change(record, **members)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        machine = self.operation.machine
        try:
            begun = self.control.store.operations.readable(machine)
            if error is None:
                self._finish()
            elif begun is not None and begun.id == self.operation.id:
                self._undo(error, begun)
        finally:
            self.control.leave(machine)

    def _finish(self) -> None:
        if self.control.store.machines.get(self.operation.machine) is None:
            return  # it is deleted
        try:
            record = self._conform()
        except BaseException as error:
            self._undo(error, self.operation)
            raise
        tidy(self.control, self.operation)
        is_expected = self.operation.kind in ("start", "pause", "resume")
        is_down = record.started_at is None and record.last_operation == self.operation.id
        if is_expected and is_down and record.end is not None:
            what = f"the monitor of {record.name} has ended"
            raise MonitorExited(what, returncode=record.end.returncode, log=record.end.log)

    def _conform(self) -> MachineRecord:
        return conform(self.control, self.record, grace=self._grace)

    def _undo(self, error: BaseException, operation: Operation) -> None:
        machines, machine = self.control.store.machines, operation.machine
        try:
            record, before = machines.get(machine), self._before
            is_committed = record is not None and record.last_operation == operation.id
            if is_committed and before is None:
                in_thread(machines.forget, machine)
            elif is_committed and before is not None and operation.kind not in FOR_GOOD:
                in_thread(machines.put, machine, before)
            wind_up(self.control, operation)
        except (VmmError, OSError) as failure:  # `reconcile` tries again
            error.add_note(f"what was begun could not be undone yet: {failure}")


class Changing(Run):
    """A block in which devices of a machine are changed, as one operation."""

    def __init__(self, control: Control, operation: Operation) -> None:
        super().__init__(control, operation)
        self._told: dict[str, object] = {}

    def tell(self, **members: object) -> None:
        """Stores members that no monitor shows: `serial`, `logger` or `cpu_config`."""
        self._told |= members

    def _conform(self) -> MachineRecord:
        definition = shown(self.control, self.record, **self._told)
        self.commit("stores the devices", definition=definition)
        return super()._conform()
