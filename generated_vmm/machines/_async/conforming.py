"""Machines become what is stored of them: after an operation, a failure and a kill."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from generated_vmm.concurrency._async import in_thread
from generated_vmm.errors import VmmError
from generated_vmm.guest import GuestError
from generated_vmm.machines._async.held import AsyncHeld
from generated_vmm.machines.files import remove
from generated_vmm.machines.records import Operation

STAND_STILL: Final = ("pause", "resume", "snapshot", "restore", "clone")
"""Operations in which a guest is held or late until its agent lets it go on."""


def is_done(held: AsyncHeld, operation: Operation) -> bool:
    """Whether an operation that was left half done is finished, or else undone."""
    if not operation.target:
        return operation.is_done or operation.kind == "delete"
    made = held.store.machines.get(operation.target)
    is_made = made is not None and made.is_whole
    return is_made or held.store.snapshots.get(operation.target) is not None


async def settle(
    held: AsyncHeld,
    operation: Operation,
    *,
    grace: float | None = None,
    seconds: float | None = None,
    is_cut_off: bool = False,
) -> None:
    """Makes a machine what is stored of it, or removes one that is not whole, or is deleted.

    Raises VmmError and OSError; then it can be called again. See `conform`.
    """
    if operation.kind == "delete" or not held.record.is_whole:
        return await remove_machine(held)
    stands_still = is_cut_off and operation.kind in STAND_STILL
    await conform(held, grace=grace, seconds=seconds, stands_still=stands_still)


async def conform(
    held: AsyncHeld,
    *,
    grace: float | None = None,
    seconds: float | None = None,
    stands_still: bool = False,
) -> None:
    """Makes the monitor of a machine what is stored, and stores how it has ended, if it has.

    The monitor has `seconds` to respond; without, as long as writing its memory may take. A guest
    has `grace` seconds to shut down, and may stand still though its machine runs.
    """
    end, record = await held.find(), held.record
    is_wanted = record.should_be != "Ended" and record.started_at is not None
    if end is None and is_wanted:
        try:
            seconds = seconds or held.options.snapshot_timeout
            return await _switch(held, seconds, stands_still=stands_still)
        except VmmError:
            if not await held.has_ended():
                raise
    if end is None:
        end = await held.end(grace)
    if record.started_at is not None:
        await (held.note(end) if is_wanted else held.change(started_at=None, end=end))


async def _switch(held: AsyncHeld, seconds: float, *, stands_still: bool) -> None:
    """Boots, pauses or resumes a machine, if it is not what it should be, or its guest is not."""
    vm = held.client.with_options(timeout=seconds)
    match (await vm.get_instance_info()).state, held.record.should_be:
        case "Not started", "Running":
            await vm.action("InstanceStart")
        case "Running", "Paused":
            await vm.pause()
        case "Paused", "Running":
            await vm.resume()
            await go_on(held)
        case "Running", "Running" if stands_still:
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
    if why != held.record.agent_error:
        await held.change(agent_error=why)


async def finish(held: AsyncHeld, operation: Operation) -> None:
    """Removes what an operation has left beside a machine, and its record.

    A monitor that runs may still use a disk that the definition has no more: the next start
    removes that.
    """
    store, target = held.store, operation.target
    if store.machines.get(held.id) is None:  # it is deleted
        return
    if operation.kind == "edit" and not held.is_up:
        await in_thread(store.tidy_disks, held.record)
    if operation.kind == "snapshot" and store.snapshots.get(target) is None:
        await in_thread(store.snapshots.remove, target)
    await held.change(operation=None)


async def remove_machine(held: AsyncHeld) -> None:
    """Ends the monitor of a machine, if there is one, and removes all its files."""
    await held.find()
    await held.end()
    with suppress(OSError):  # a full disk; what follows frees some
        await held.change(is_whole=False)
    for folder in held.folders():
        await in_thread(remove, folder)
    await in_thread(held.store.machines.remove, held.id)
