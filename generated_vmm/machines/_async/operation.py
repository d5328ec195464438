"""Operations: recorded before their first step, and finished or undone after a failure."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import get_args

from generated_vmm.concurrency._async import in_thread
from generated_vmm.errors import VmmError
from generated_vmm.machines._async.conforming import finish, is_done, settle
from generated_vmm.machines._async.control import AsyncControl
from generated_vmm.machines._async.held import AsyncHeld
from generated_vmm.machines.definition import Definition
from generated_vmm.machines.errors import MachineError
from generated_vmm.machines.records import MachineRecord, Operation, Report, State, What
from generated_vmm.process import MonitorExited

FOR_GOOD = ("stop", "delete")
"""Operations that are not undone once they have begun."""


async def recover(control: AsyncControl, held: AsyncHeld, left: Operation) -> None:
    """Finishes or undoes an operation that was left half done, and reports which of the two.

    Raises VmmError and OSError; then the record stays, and it can be called again.
    """
    what: What = "finished" if is_done(held, left) else "undone"
    await settle(held, left, seconds=control.options.timeout, is_cut_off=True)
    await finish(held, left)
    control.tell(Report(what=what, machine=held.id, name=left.name, operation=left))


@asynccontextmanager
async def carry_out(
    control: AsyncControl,
    operation: Operation,
    *,
    made: Definition | None = None,
    grace: float | None = None,
) -> AsyncIterator[AsyncRun]:
    """A block that carries an operation out, which begins with its record.

    The block does what can be undone, and then commits: it stores what the machine should be. The
    end of the block makes the machine what is stored, as `recover` does after a kill. If anything
    raises, the machine becomes again what was stored before. `made` is what a machine is made of
    that the operation makes; it is removed then. A guest has `grace` seconds to shut down.
    """
    run = AsyncRun(control, operation)
    await control.occupy(run.held, operation)
    try:
        await run.begin(made)
        yield run
        await settle(run.held, run.operation, grace=grace)
    except BaseException as error:
        await run.undo(error)
        raise
    else:
        await run.finish()
    finally:
        await control.leave(run.held)


class AsyncRun:
    """An operation that this process carries out."""

    def __init__(self, control: AsyncControl, operation: Operation) -> None:
        self.control, self.operation = control, operation
        self.held = control.of(operation.machine)
        self.is_committed = False
        self._before: MachineRecord | None = None

    async def begin(self, made: Definition | None) -> None:
        """Records the operation, once what was left half done is finished or undone."""
        if made is not None:
            operation, id = self.operation, self.held.id
            self._before = MachineRecord(
                id=id, name=operation.name, definition=made, operation=operation, is_whole=False
            )
            return await in_thread(self.control.store.begin_machine, self._before)
        if left := self.held.record.operation:
            await self._recover(left)
        self._before = await self._found()
        await self.held.change(operation=self.operation)

    async def _recover(self, left: Operation) -> None:
        try:
            await recover(self.control, self.held, left)
        except VmmError:
            if self.operation.kind not in FOR_GOOD:
                raise
            await self.held.end()  # it does not respond
            await recover(self.control, self.held, left)

    async def _found(self) -> MachineRecord:
        """The machine with its present state, which a call may have changed that was no operation.

        One that does not respond can still be stopped.
        """
        record = await self.held.look()
        if self.operation.kind in FOR_GOOD or not self.held.is_up:
            return record
        state = (await self.held.client.get_instance_info()).state
        if state == record.should_be or state not in get_args(State):
            return record
        return await self.held.change(should_be=state)

    def require(self, *states: State) -> None:
        """Raises `MachineError` if the machine is in another state."""
        record = self.held.record
        state = record.should_be if record.started_at is not None else "Ended"
        if state not in states:
            wanted = " or ".join(states).lower()
            raise MachineError(f"{record.name} is {state.lower()}; it must be {wanted}")

    async def step(self, step: str, **members: object) -> None:
        """Records the next step before it is done. Raises OSError: then it may not be done."""
        self.operation = self.operation.model_copy(update={"step": step})
        await self.held.change(operation=self.operation, **members)

    async def commit(self, step: str, **members: object) -> None:
        """Stores what the machine should be, which the end of the block makes true."""
        done = self.operation.model_copy(update={"step": step, "is_done": True})
        await self.held.change(operation=done, **members)
        self.is_committed = True

    async def finish(self) -> None:
        """Removes the record of the operation, or leaves that to `reconcile` if it cannot.

        Raises `MonitorExited` if the monitor has ended that was started, paused or resumed.
        """
        with suppress(OSError):  # all is done
            await finish(self.held, self.operation)
        if self.is_committed and self.operation.kind in ("start", "pause", "resume"):
            record = self.held.record
            if record.started_at is None and record.end is not None:
                what = f"the monitor of {record.name} has ended"
                raise MonitorExited(what, returncode=record.end.returncode, log=record.end.log)

    async def undo(self, error: BaseException) -> None:
        """Makes the machine again what was stored before, if the operation is recorded."""
        record = self.control.store.machines.readable(self.held.id)
        begun = record.operation if record is not None else None
        if begun is None or begun.id != self.operation.id or self._before is None:
            return
        try:
            if begun.is_done and begun.kind not in FOR_GOOD:
                before = dict(self._before) | {"operation": self.operation}
                await self.held.change(**before)
            await settle(self.held, begun, is_cut_off=True)
            await finish(self.held, begun)
        except (VmmError, OSError) as failure:  # `reconcile` tries again
            error.add_note(f"what was begun could not be undone yet: {failure}")
