"""Operations: recorded before their first step, and finished or undone after a failure or a kill.

A machine becomes what is stored of it: after an operation, a failure and a kill.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final, get_args

from generated_vmm.concurrency._async import finished, in_thread
from generated_vmm.errors import VmmError
from generated_vmm.guest import GuestError
from generated_vmm.machines import records
from generated_vmm.machines._async.held import AsyncHeld
from generated_vmm.machines.copies import written_in_jail
from generated_vmm.machines.definition import Definition
from generated_vmm.machines.records import MachineBusy, Operation
from generated_vmm.machines.store import NEW, remove
from generated_vmm.process import AsyncJailedMonitor, MonitorExited

FOR_GOOD: Final = ("stop", "delete")
"""Operations that are not undone once they have begun."""


@asynccontextmanager
async def carry_out(
    held: AsyncHeld, operation: Operation, made: Definition | None = None
) -> AsyncIterator[None]:
    """A block that carries an operation out, while nothing else begins with the machine.

    `made` is what a machine is made of that the operation makes. See `recorded`.
    """
    async with held.control.turn(held.id, waits=True) as is_ours:
        if not is_ours:
            raise MachineBusy(operation.name, held.control.operation_of(held.id))
        held.control.take()
        async with recorded(held, operation, made):
            yield


@asynccontextmanager
async def recorded(
    held: AsyncHeld, operation: Operation, made: Definition | None = None, **members: object
) -> AsyncIterator[None]:
    """A block that carries an operation out, which begins with its record, and with `members`.

    The block does what can be undone, and then commits: it stores what the machine should be. The
    end of the block makes the machine what is stored, as `recover` does after a kill. If anything
    raises, the machine becomes again what was stored before; a machine that the operation makes is
    removed.
    """
    before: dict[str, object] = {}
    try:
        if made is not None:
            await in_thread(held.store.begin_machine, operation, made)
        else:
            before = dict(await _found(held, operation)) | members
            await held.change(**before | {"operation": operation})
        yield
        await conform(held)
    except BaseException as error:
        await finished(_undo, held, operation, before, error)
        raise
    await finished(_conclude, held, operation)


async def _found(held: AsyncHeld, operation: Operation) -> records.MachineRecord:
    """The machine with its present state, once what was left half done is finished or undone.

    A call may have changed the state that was no operation. A machine that does not respond can
    still be stopped.
    """
    is_for_good = operation.kind in FOR_GOOD
    await recover(held, is_to_end=is_for_good)
    await held.look()
    record = held.record
    if held.is_up and not is_for_good:
        state = (await held.client.get_instance_info()).state
        if state in get_args(records.State):
            record = record.model_copy(update={"should_be": state})
    return record


async def recover(held: AsyncHeld, *, is_to_end: bool = False) -> None:
    """Finishes or undoes an operation that was left half done, and reports which of the two.

    A machine that `is_to_end` may not respond; it need not become what is stored before. The record
    of the operation that ends it takes the place of this one. Raises VmmError and OSError; then the
    record stays, and it can be called again.
    """
    if (left := held.record.operation) is None:
        return
    what: records.What = "finished" if _is_done(held, left) else "undone"
    if not is_to_end or not held.record.is_whole:
        await conform(held, seconds=held.options.timeout, is_cut_off=True)
        await _finish(held)
    report = records.Report(what=what, machine=held.id, name=left.name, operation=left)
    held.control.reports.append(report)


def _is_done(held: AsyncHeld, operation: Operation) -> bool:
    """Whether an operation that was left half done is finished, or else undone."""
    if not operation.target:
        return operation.is_done or operation.kind == "delete"
    made = held.store.machines.get(operation.target)
    is_made = made is not None and made.is_whole
    return is_made or held.store.snapshots.get(operation.target) is not None


async def _conclude(held: AsyncHeld, operation: Operation) -> None:
    """Removes the record of the operation, or leaves that to `reconcile` if it cannot.

    Raises `MonitorExited` if the monitor has ended that was started, paused or resumed.
    """
    with suppress(OSError):  # all is done
        await _finish(held)
    if operation.kind in ("start", "pause", "resume"):
        record = held.record
        if record.started_at is None and record.end is not None:
            what = f"the monitor of {record.name} has ended"
            raise MonitorExited(what, returncode=record.end.returncode, log=record.end.log)


async def _undo(
    held: AsyncHeld, operation: Operation, before: dict[str, object], error: BaseException
) -> None:
    """Makes the machine again what was stored before, if the operation is recorded."""
    try:
        begun = held.control.operation_of(held.id)
        if begun is None or begun.id != operation.id:
            return
        if begun.is_done and begun.kind not in FOR_GOOD:
            await held.change(**before | {"operation": operation})
        await conform(held, is_cut_off=True)
        await _finish(held)
    except (VmmError, OSError) as failure:  # `reconcile` tries again
        error.add_note(f"what was begun could not be undone yet: {failure}")


async def _finish(held: AsyncHeld) -> None:
    """Removes what an operation has left in a machine's folder and jail, and its record.

    A monitor that runs may still use a disk that the definition has no more: the next start
    removes that.
    """
    record = held.store.machines.get(held.id)
    if record is None or record.operation is None:  # it is deleted
        return
    if record.operation.kind == "edit" and not held.is_up:
        await in_thread(held.store.tidy_disks, record)
    await in_thread(remove, held.folder / NEW)
    if isinstance(held.monitor, AsyncJailedMonitor):
        for path in written_in_jail(record.operation).values():
            await in_thread(remove, held.monitor.outside(path))
    await held.change(operation=None)


async def remove_machine(held: AsyncHeld) -> None:
    """Ends the monitor of a machine, if there is one, and removes all its files."""
    await held.find()
    await held.end()
    for folder in held.folders():
        await in_thread(remove, folder)
    await in_thread(held.store.machines.remove, held.id)


async def conform(
    held: AsyncHeld,
    *,
    grace: float | None = None,
    seconds: float | None = None,
    is_cut_off: bool = False,
) -> None:
    """Makes the monitor of a machine what is stored, and stores how it has ended, if it has.

    Removes a machine that is not whole. The monitor has `seconds` to respond; without, as long as
    writing its memory may take. A guest has `grace` seconds to shut down, and may stand still
    though its machine runs, if its operation `is_cut_off`. Raises VmmError and OSError; call it
    again then.
    """
    if not held.record.is_whole:
        return await remove_machine(held)
    end, record = await held.find(), held.record
    is_wanted = record.should_be != "Ended" and record.started_at is not None
    if end is None and is_wanted:
        with suppress(MonitorExited):
            seconds = seconds or held.options.snapshot_timeout
            return await _switch(held, seconds, is_cut_off=is_cut_off)
    if end is None:
        end = await held.end(grace)
    if record.started_at is not None:
        await (held.note(end) if is_wanted else held.change(started_at=None, end=end))


async def _switch(held: AsyncHeld, seconds: float, *, is_cut_off: bool) -> None:
    """Boots, pauses or resumes a machine, if it is not what it should be, or its guest is not."""
    vm, record = held.client.with_options(timeout=seconds), held.record
    begun = record.operation
    match (await vm.get_instance_info()).state, record.should_be:
        case "Not started", "Running":
            await vm.action("InstanceStart")
        case "Running", "Paused":
            await vm.pause()
        case "Paused", "Running":
            await vm.resume()
            await go_on(held)
        case "Running", "Running" if is_cut_off and begun and begun.kind != "start":
            await go_on(held)


async def go_on(held: AsyncHeld) -> None:
    """Sets the clock of a guest that was paused, and lets it run; stores why its agent cannot."""
    if held.record.definition.agent is None:
        return
    why = ""
    try:
        async with held.guest() as guest:
            is_isolated = (await guest.info()).isolated
            try:
                if is_isolated:
                    await guest.set_clock()
            finally:
                await guest.release()
    except (GuestError, OSError) as error:
        why = str(error)
    await held.change(agent_error=why)
