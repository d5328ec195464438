# Derived from `generated_vmm/machines/_async/conforming.py` by `make codegen`. Do not edit.
"""Machines become what is stored of them: after an operation, a failure and a kill."""

from __future__ import annotations

from generated_vmm.concurrency._sync import in_thread
from generated_vmm.errors import VmmError
from generated_vmm.guest import GuestError
from generated_vmm.machines._sync.control import Control
from generated_vmm.machines.files import remove_folder
from generated_vmm.machines.records import End, MachineRecord, Operation

HOLDS, PAUSES = "holds the guest", "pauses the machine"
"""The steps of a copy after which a guest may be held in a machine that is not paused."""


def recover(control: Control, operation: Operation) -> None:
    """Finishes or undoes an operation that was left half done, and reports which of the two.

    Raises VmmError and OSError; then the record stays, and it can be called again.
    """
    machines, snapshots = control.store.machines, control.store.snapshots
    if operation.target:
        is_done = bool(machines.get(operation.target) or snapshots.get(operation.target))
    else:
        record = machines.get(operation.machine)
        is_done = record is None or record.last_operation == operation.id
    is_done = is_done or operation.kind == "delete"
    wind_up(control, operation, control.options.timeout)
    control.tell("finished" if is_done else "undone", operation.machine, operation=operation)


def wind_up(control: Control, operation: Operation, seconds: float | None = None) -> None:
    """Makes a machine what is stored of it, or removes one that is not stored, or is deleted."""
    record = control.store.machines.get(operation.machine)
    if record is None or operation.kind == "delete":
        return remove(control, operation.machine)
    record = conform(control, record, seconds=seconds)
    is_held = operation.target and operation.step in (HOLDS, PAUSES)
    if is_held and record.should_be == "Running" and control.monitors.is_up(record.id):
        go_on(control, record)
    tidy(control, operation)


def conform(
    control: Control,
    record: MachineRecord,
    *,
    grace: float | None = None,
    seconds: float | None = None,
) -> MachineRecord:
    """Makes the monitor of a machine what is stored, and stores how it has ended, if it has.

    The monitor has `seconds` to respond; without, as long as writing its memory may take.
    """
    found = control.monitors.find(record.id)
    is_wanted = record.should_be != "Ended" and record.started_at is not None
    if not isinstance(found, End) and not is_wanted:
        found = control.monitors.end(record.id, grace)
    if not isinstance(found, End):
        try:
            return _switch(control, record, seconds or control.options.snapshot_timeout)
        except VmmError:
            if not control.monitors.has_ended(record.id):
                raise
            return conform(control, record)
    if record.started_at is None:
        return record
    if is_wanted:
        return control.note(record, found)
    return control.change(record, started_at=None, end=found)


def _switch(control: Control, record: MachineRecord, seconds: float) -> MachineRecord:
    """Boots, pauses or resumes a machine, if it is not what it should be."""
    vm = control.monitors.client(record).with_options(timeout=seconds)
    match (vm.get_instance_info()).state, record.should_be:
        case "Not started", "Running":
            vm.action("InstanceStart")
        case "Running", "Paused":
            vm.pause()
        case "Paused", "Running":
            vm.resume()
            return go_on(control, record)
    return record


def go_on(control: Control, record: MachineRecord) -> MachineRecord:
    """Sets the clock of a guest that was paused, and lets it run; stores why its agent cannot."""
    if record.definition.agent is None:
        return record
    why = ""
    try:
        with control.monitors.guest(record) as guest:
            is_isolated = (guest.info()).isolated
            try:
                if is_isolated:
                    guest.set_clock()
            finally:
                guest.release()
    except (GuestError, OSError) as error:
        why = str(error)
    return record if why == record.agent_error else control.change(record, agent_error=why)


def tidy(control: Control, operation: Operation) -> None:
    """Removes what an operation has left beside a whole machine, and its record."""
    store, target = control.store, operation.target
    if operation.kind == "edit":
        in_thread(store.tidy_disks, control.record(operation.machine))
    if operation.kind == "snapshot" and store.snapshots.get(target) is None:
        in_thread(store.snapshots.remove, target)
    in_thread(store.operations.forget, operation.machine)


def remove(control: Control, machine: str) -> None:
    """Ends the monitor of a machine, if there is one, and removes all its files."""
    control.monitors.find(machine)
    control.monitors.end(machine)
    for folder in control.monitors.folders(machine):
        in_thread(remove_folder, folder)
    in_thread(control.store.machines.remove, machine)
