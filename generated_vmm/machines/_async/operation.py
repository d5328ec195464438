"""Operations: recorded before their first step, and finished or undone after a failure or a kill.

A machine becomes what is stored of it: after an operation, a failure and a kill.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from generated_vmm.concurrency._async import finished, in_thread
from generated_vmm.errors import VmmError
from generated_vmm.guest import GuestError
from generated_vmm.machines import records
from generated_vmm.machines._async.held import LOOKS, AsyncHeld
from generated_vmm.machines.records import Definition, MachineBusy, Operation
from generated_vmm.machines.store import remove
from generated_vmm.process import MonitorExited

FOR_GOOD: Final = ("stop", "delete")
"""Operations that are not undone once they have begun."""
HOLDING: Final = ("snapshot", "clone", "resume")
"""Operations after which the guest of a machine that runs may stand still, or be late."""
ANSWERED: Final = ("start", "pause", "resume")
"""Operations that fail if the monitor ends by itself; others are done all the same."""
STATE, MEMORY = "state", "memory"
"""The files with the state of the devices, and with the memory."""


@asynccontextmanager
async def carry_out(
    held: AsyncHeld, operation: Operation, made: Definition | None = None
) -> AsyncIterator[None]:
    """A block that carries an operation out, while nothing else begins with the machine.

    `made` is what a machine is made of that the operation makes. See `recorded`.
    """
    control = held._control
    async with control._turn(held.id, LOOKS) as is_ours:
        control._require_control()
        if not is_ours:
            raise MachineBusy(operation.name, control._operation_of(held.id))
        async with recorded(held, operation, made):
            yield


@asynccontextmanager
async def recorded(
    held: AsyncHeld, operation: Operation, made: Definition | None = None
) -> AsyncIterator[None]:
    """A block that carries an operation out, which begins with its record.

    What was left half done before is finished or undone first. The block does what can be undone,
    and then commits: it stores what the machine should be. The end of the block makes the machine
    what is stored, as `recover` does after a kill. If anything raises, the machine becomes again
    what was stored before; a machine that the operation makes is removed.
    """
    before: dict[str, object] = {}
    try:
        if made is not None:
            await in_thread(held._store.begin_machine, operation, made)
        else:
            await recover(held, is_to_end=operation.kind in FOR_GOOD)
            await held._look()
            before = dict(held.record)
            await held._change(**before | {"operation": operation})
        yield
        await conform(held)
    except BaseException as error:
        await finished(_undo, held, operation, before, error)
        raise
    with suppress(OSError):  # all is done, and `reconcile` removes the record
        await finished(_finish, held)


async def recover(held: AsyncHeld, *, is_to_end: bool = False) -> None:
    """Finishes or undoes an operation that was left half done, and reports which of the two.

    A machine that `is_to_end` may not respond; it need not become what is stored before. The record
    of the operation that ends it takes the place of this one. Raises VmmError and OSError; then the
    record stays, and it can be called again.
    """
    if (left := held.record.operation) is None:
        return
    what: records.What = "finished" if _is_done(held, left) else "undone"
    if is_to_end and held.record.is_whole:
        await _tidy(held, left)
    else:
        await conform(held)
        await _finish(held)
    report = records.Report(what=what, machine=held.id, name=left.name, operation=left)
    held._control._reports.append(report)


def _is_done(held: AsyncHeld, operation: Operation) -> bool:
    """Whether an operation that was left half done is finished, or else undone."""
    if not operation.target:
        return operation.is_done or operation.kind == "delete"
    made = held._store.machines.find(operation.target)
    is_made = made is not None and made.is_whole
    return is_made or held._store.snapshots.find(operation.target) is not None


async def _undo(
    held: AsyncHeld, operation: Operation, before: dict[str, object], error: BaseException
) -> None:
    """Makes the machine again what was stored before, if the operation is recorded."""
    try:
        begun = held._control._operation_of(held.id)
        if begun is None or begun.id != operation.id:
            return
        if begun.is_done and begun.kind not in FOR_GOOD:
            await held._change(**before | {"operation": operation})
        await conform(held)
        await _finish(held)
    except (VmmError, OSError) as failure:  # `reconcile` tries again
        error.add_note(f"what was begun could not be undone yet: {failure}")


def written(held: AsyncHeld, operation: Operation) -> dict[str, Path]:
    """Where the monitor writes the state and the memory of a machine, until they are moved."""
    outside = held.monitor.outside if held.monitor is not None else held._folder.joinpath
    return {name: outside(f"{name}-{operation.id}") for name in (STATE, MEMORY)}


async def _finish(held: AsyncHeld) -> None:
    """Removes what an operation has left that was not finished, and its record."""
    if (begun := held._control._operation_of(held.id)) is not None:  # else it is deleted
        await _tidy(held, begun)
        await held._change(operation=None)


async def _tidy(held: AsyncHeld, begun: Operation) -> None:
    """Removes a snapshot that is not whole, and files that the monitor has written."""
    snapshots = held._store.snapshots
    if begun.kind == "snapshot" and snapshots.find(begun.target) is None:
        await in_thread(snapshots.remove, begun.target)
    for path in written(held, begun).values():
        await in_thread(remove, path)


async def remove_machine(held: AsyncHeld) -> None:
    """Ends the monitor of a machine, if there is one, and removes all its files."""
    await held._find()
    await held._end()
    for folder in held._folders():
        await in_thread(remove, folder)
    await in_thread(held._store.machines.remove, held.id)


async def conform(held: AsyncHeld, grace: float | None = None) -> None:
    """Makes the monitor of a machine what is stored, and stores how it has ended, if it has.

    Removes a machine that is not whole. A guest has `grace` seconds to shut down. Raises VmmError
    and OSError; call it again then.
    """
    if not held.record.is_whole:
        return await remove_machine(held)
    end, record = await held._find(), held.record
    is_wanted = record.should_be != "Ended" and record.started_at is not None
    if end is None and is_wanted:
        try:
            return await _switch(held)
        except MonitorExited:
            if record.operation is not None and record.operation.kind in ANSWERED:
                raise
    if end is None:
        end = await held._end(grace)
    if record.started_at is not None:
        ended = {"started_at": None, "end": end}
        await held._change(**record.after(end) if is_wanted else ended)


async def _switch(held: AsyncHeld) -> None:
    """Boots, pauses or resumes a machine, if it is not what it should be, or its guest is not."""
    vm, record = held.client.with_options(timeout=held._control.timeout), held.record
    match (await vm.get_instance_info()).state, record.should_be:
        case "Not started", "Running":
            await vm.action("InstanceStart")
        case "Running", "Paused":
            await vm.pause()
        case state, "Running":
            if state == "Paused":
                await vm.resume()
            if record.operation is not None and record.operation.kind in HOLDING:
                await _go_on(held)


async def _go_on(held: AsyncHeld) -> None:
    """Lets a guest run that was held, and sets its clock; stores why its agent cannot."""
    if held.record.definition.agent is None:
        return
    why = ""
    try:
        async with held.guest() as guest:
            is_isolated = (await guest.info()).isolated
            await guest.release()
            if is_isolated:
                await guest.set_clock()
    except (GuestError, OSError) as error:
        why = str(error)
    await held._change(agent_error=why)
