# Derived from `generated_vmm/machines/_async/operation.py` by `make codegen`. Do not edit.
"""Operations: recorded before their first step, and finished or undone after a failure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import get_args

from generated_vmm.concurrency._sync import in_thread
from generated_vmm.errors import VmmError
from generated_vmm.machines._sync.conforming import finish, is_done, settle
from generated_vmm.machines._sync.control import Control
from generated_vmm.machines._sync.held import Held
from generated_vmm.machines.definition import Definition
from generated_vmm.machines.errors import MachineError
from generated_vmm.machines.records import MachineRecord, Operation, Report, State, What
from generated_vmm.process import MonitorExited

FOR_GOOD = ("stop", "delete")
"""Operations that are not undone once they have begun."""


def recover(control: Control, held: Held, left: Operation) -> None:
    """Finishes or undoes an operation that was left half done, and reports which of the two.

    Raises VmmError and OSError; then the record stays, and it can be called again.
    """
    what: What = "finished" if is_done(held, left) else "undone"
    settle(held, left, seconds=control.options.timeout, is_cut_off=True)
    finish(held, left)
    control.tell(Report(what=what, machine=held.id, name=left.name, operation=left))


@contextmanager
def carry_out(
    control: Control,
    operation: Operation,
    *,
    made: Definition | None = None,
    grace: float | None = None,
) -> Iterator[Run]:
    """A block that carries an operation out, which begins with its record.

    The block does what can be undone, and then commits: it stores what the machine should be. The
    end of the block makes the machine what is stored, as `recover` does after a kill. If anything
    raises, the machine becomes again what was stored before. `made` is what a machine is made of
    that the operation makes; it is removed then. A guest has `grace` seconds to shut down.
    """
    run = Run(control, operation)
    control.occupy(run.held, operation)
    try:
        run.begin(made)
        yield run
        settle(run.held, run.operation, grace=grace)
    except BaseException as error:
        run.undo(error)
        raise
    else:
        run.finish()
    finally:
        control.leave(run.held)


class Run:
    """An operation that this process carries out."""

    def __init__(self, control: Control, operation: Operation) -> None:
        self.control, self.operation = control, operation
        self.held = control.of(operation.machine)
        self.is_committed = False
        self._before: MachineRecord | None = None

    def begin(self, made: Definition | None) -> None:
        """Records the operation, once what was left half done is finished or undone."""
        if made is not None:
            operation, id = self.operation, self.held.id
            self._before = MachineRecord(
                id=id, name=operation.name, definition=made, operation=operation, is_whole=False
            )
            return in_thread(self.control.store.begin_machine, self._before)
        if left := self.held.record.operation:
            self._recover(left)
        self._before = self._found()
        self.held.change(operation=self.operation)

    def _recover(self, left: Operation) -> None:
        try:
            recover(self.control, self.held, left)
        except VmmError:
            if self.operation.kind not in FOR_GOOD:
                raise
            self.held.end()  # it does not respond
            recover(self.control, self.held, left)

    def _found(self) -> MachineRecord:
        """The machine with its present state, which a call may have changed that was no operation.

        One that does not respond can still be stopped.
        """
        record = self.held.look()
        if self.operation.kind in FOR_GOOD or not self.held.is_up:
            return record
        state = (self.held.client.get_instance_info()).state
        if state == record.should_be or state not in get_args(State):
            return record
        return self.held.change(should_be=state)

    def require(self, *states: State) -> None:
        """Raises `MachineError` if the machine is in another state."""
        record = self.held.record
        state = record.should_be if record.started_at is not None else "Ended"
        if state not in states:
            wanted = " or ".join(states).lower()
            raise MachineError(f"{record.name} is {state.lower()}; it must be {wanted}")

    def step(self, step: str, **members: object) -> None:
        """Records the next step before it is done. Raises OSError: then it may not be done."""
        self.operation = self.operation.model_copy(update={"step": step})
        self.held.change(operation=self.operation, **members)

    def commit(self, step: str, **members: object) -> None:
        """Stores what the machine should be, which the end of the block makes true."""
        done = self.operation.model_copy(update={"step": step, "is_done": True})
        self.held.change(operation=done, **members)
        self.is_committed = True

    def finish(self) -> None:
        """Removes the record of the operation, or leaves that to `reconcile` if it cannot.

        Raises `MonitorExited` if the monitor has ended that was started, paused or resumed.
        """
        with suppress(OSError):  # all is done
            finish(self.held, self.operation)
        if self.is_committed and self.operation.kind in ("start", "pause", "resume"):
            record = self.held.record
            if record.started_at is None and record.end is not None:
                what = f"the monitor of {record.name} has ended"
                raise MonitorExited(what, returncode=record.end.returncode, log=record.end.log)

    def undo(self, error: BaseException) -> None:
        """Makes the machine again what was stored before, if the operation is recorded."""
        record = self.control.store.machines.readable(self.held.id)
        begun = record.operation if record is not None else None
        if begun is None or begun.id != self.operation.id or self._before is None:
            return
        try:
            if begun.is_done and begun.kind not in FOR_GOOD:
                before = dict(self._before) | {"operation": self.operation}
                self.held.change(**before)
            settle(self.held, begun, is_cut_off=True)
            finish(self.held, begun)
        except (VmmError, OSError) as failure:  # `reconcile` tries again
            error.add_note(f"what was begun could not be undone yet: {failure}")
