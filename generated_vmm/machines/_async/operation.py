"""Operations: recorded before their first step, and finished or undone after a failure."""

from __future__ import annotations

from types import TracebackType
from typing import Self, get_args

from generated_vmm.concurrency._async import in_thread
from generated_vmm.errors import VmmError
from generated_vmm.machines._async.conforming import (
    conform,
    finish,
    is_done,
    remove_machine,
    wind_up,
)
from generated_vmm.machines._async.control import AsyncControl
from generated_vmm.machines._async.held import AsyncHeld
from generated_vmm.machines.errors import MachineError
from generated_vmm.machines.records import MachineRecord, Operation, State
from generated_vmm.process import MonitorExited

FOR_GOOD = ("stop", "delete")
"""Operations that are not undone once they have begun."""


async def recover(control: AsyncControl, held: AsyncHeld, left: Operation) -> None:
    """Finishes or undoes an operation that was left half done, and reports which of the two.

    Raises VmmError and OSError; then the record stays, and it can be called again.
    """
    what = is_done(held, left)
    await wind_up(held, left, control.options.timeout)
    control.tell("finished" if what else "undone", held.id, operation=left)


class AsyncRun:
    """An operation that this process carries out: a block, which begins with its record.

    The block does what can be undone, and then commits: it stores what the machine should be. The
    end of the block makes the machine what is stored, as `recover` does after a kill. If anything
    raises, the machine becomes again what was stored before. `made` is a machine that the
    operation makes; it is removed then.
    """

    def __init__(
        self,
        control: AsyncControl,
        operation: Operation,
        *,
        made: MachineRecord | None = None,
        grace: float | None = None,
    ) -> None:
        self.control, self.operation = control, operation
        self.held = control.of(operation.machine)
        self._made, self._grace = made, grace
        self._before: MachineRecord | None = None

    async def __aenter__(self) -> Self:
        await self.control.occupy(self.held, self.operation)
        try:
            await self._begin()
        except BaseException as error:
            await self._end(error)
            raise
        return self

    async def _begin(self) -> None:
        if self._made is not None:
            made = self._made.model_copy(update={"operation": self.operation})
            await in_thread(self.control.store.begin_machine, made)
            return
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

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._end(error)

    async def _end(self, error: BaseException | None) -> None:
        try:
            if error is not None:
                await self._undo(error)
            elif self.operation.kind != "delete":
                await self._finish()
        finally:
            await self.control.leave(self.held)

    async def _finish(self) -> None:
        try:
            record = await self._conform()
        except BaseException as error:
            await self._undo(error)
            raise
        await finish(self.held, self.operation)
        is_expected = self.operation.kind in ("start", "pause", "resume")
        is_down = record.operation is not None and record.operation.is_done
        is_down = is_down and record.started_at is None
        if is_expected and is_down and record.end is not None:
            what = f"the monitor of {record.name} has ended"
            raise MonitorExited(what, returncode=record.end.returncode, log=record.end.log)

    async def _conform(self) -> MachineRecord:
        return await conform(self.held, grace=self._grace)

    async def _undo(self, error: BaseException) -> None:
        record = self.control.store.machines.readable(self.held.id)
        begun = record.operation if record is not None else None
        if begun is None or begun.id != self.operation.id:
            return
        try:
            if self._before is None:
                return await remove_machine(self.held)
            if begun.is_done and begun.kind not in FOR_GOOD:
                before = dict(self._before) | {"operation": self.operation}
                await self.held.change(**before)
            await wind_up(self.held, begun)
        except (VmmError, OSError) as failure:  # `reconcile` tries again
            error.add_note(f"what was begun could not be undone yet: {failure}")
