# Derived from `generated_vmm/machines/_async/conforming.py` by `make codegen`. Do not edit.
"""Machines become what is stored of them: after an operation, a failure and a kill."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from generated_vmm.concurrency._sync import in_thread
from generated_vmm.errors import VmmError
from generated_vmm.guest import GuestError
from generated_vmm.machines._sync.held import Held
from generated_vmm.machines.files import remove
from generated_vmm.machines.records import Operation

STAND_STILL: Final = ("pause", "resume", "snapshot", "restore", "clone")
"""Operations in which a guest is held or late until its agent lets it go on."""


def is_done(held: Held, operation: Operation) -> bool:
    """Whether an operation that was left half done is finished, or else undone."""
    if not operation.target:
        return operation.is_done or operation.kind == "delete"
    made = held.store.machines.get(operation.target)
    is_made = made is not None and made.is_whole
    return is_made or held.store.snapshots.get(operation.target) is not None


def settle(
    held: Held,
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
        return remove_machine(held)
    stands_still = is_cut_off and operation.kind in STAND_STILL
    conform(held, grace=grace, seconds=seconds, stands_still=stands_still)


def conform(
    held: Held,
    *,
    grace: float | None = None,
    seconds: float | None = None,
    stands_still: bool = False,
) -> None:
    """Makes the monitor of a machine what is stored, and stores how it has ended, if it has.

    The monitor has `seconds` to respond; without, as long as writing its memory may take. A guest
    has `grace` seconds to shut down, and may stand still though its machine runs.
    """
    end, record = held.find(), held.record
    is_wanted = record.should_be != "Ended" and record.started_at is not None
    if end is None and is_wanted:
        try:
            seconds = seconds or held.options.snapshot_timeout
            return _switch(held, seconds, stands_still=stands_still)
        except VmmError:
            if not held.has_ended():
                raise
    if end is None:
        end = held.end(grace)
    if record.started_at is not None:
        (held.note(end) if is_wanted else held.change(started_at=None, end=end))


def _switch(held: Held, seconds: float, *, stands_still: bool) -> None:
    """Boots, pauses or resumes a machine, if it is not what it should be, or its guest is not."""
    vm = held.client.with_options(timeout=seconds)
    match (vm.get_instance_info()).state, held.record.should_be:
        case "Not started", "Running":
            vm.action("InstanceStart")
        case "Running", "Paused":
            vm.pause()
        case "Paused", "Running":
            vm.resume()
            go_on(held)
        case "Running", "Running" if stands_still:
            go_on(held)


def go_on(held: Held) -> None:
    """Sets the clock of a guest that was paused, and lets it run; stores why its agent cannot."""
    if held.record.definition.agent is None:
        return
    why = ""
    try:
        with held.guest() as guest:
            is_isolated = (guest.info()).isolated
            try:
                if is_isolated:
                    guest.set_clock()
            finally:
                guest.release()
    except (GuestError, OSError) as error:
        why = str(error)
    if why != held.record.agent_error:
        held.change(agent_error=why)


def finish(held: Held, operation: Operation) -> None:
    """Removes what an operation has left beside a machine, and its record.

    A monitor that runs may still use a disk that the definition has no more: the next start
    removes that.
    """
    store, target = held.store, operation.target
    if store.machines.get(held.id) is None:  # it is deleted
        return
    if operation.kind == "edit" and not held.is_up:
        in_thread(store.tidy_disks, held.record)
    if operation.kind == "snapshot" and store.snapshots.get(target) is None:
        in_thread(store.snapshots.remove, target)
    held.change(operation=None)


def remove_machine(held: Held) -> None:
    """Ends the monitor of a machine, if there is one, and removes all its files."""
    held.find()
    held.end()
    with suppress(OSError):  # a full disk; what follows frees some
        held.change(is_whole=False)
    for folder in held.folders():
        in_thread(remove, folder)
    in_thread(held.store.machines.remove, held.id)
