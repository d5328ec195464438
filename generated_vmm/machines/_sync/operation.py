# Derived from `generated_vmm/machines/_async/operation.py` by `make codegen`. Do not edit.
"""Operations: recorded before their first step, and finished or undone after a failure."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from generated_vmm.concurrency._sync import in_thread, sleep
from generated_vmm.errors import VmmError
from generated_vmm.machines._sync.monitors import Monitors
from generated_vmm.machines._sync.renewal import go_on_if_it_can
from generated_vmm.machines.definition import Definition, Jail
from generated_vmm.machines.errors import MachineBusy, MachineError
from generated_vmm.machines.files import remove_folder
from generated_vmm.machines.options import Options
from generated_vmm.machines.records import End, MachineRecord, Operation, boot_id, now
from generated_vmm.machines.restart import after_end
from generated_vmm.machines.store import Lease, Store

LOOKS, LOOK_SECONDS = 100, 0.02
"""How often and after which pause `reconcile`, which looks at a machine, is waited for."""


class Control:
    """What the operations of all machines share: the store, its control lock, and the monitors."""

    def __init__(self, store: Store, options: Options, monitors: Monitors) -> None:
        self.store, self.options, self.monitors = store, options, monitors
        self._lock: Lease | None = None

    def take(self) -> None:
        """Takes control of the machines. Raises `MachineError` if another process has it."""
        if self._lock is None:
            self._lock = self.store.take_control()

    def give_up(self) -> None:
        """Gives up the control of the machines."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def record(self, machine: str) -> MachineRecord:
        """A machine. Raises `MachineError` if it does not exist."""
        record = self.store.record(machine)
        if record is None:
            raise MachineError(f"the machine {machine} does not exist any more")
        return record

    def change(self, record: MachineRecord, **members: object) -> MachineRecord:
        """Stores a machine with other members, and returns it."""
        if members.get("started_at") is not None:
            members["boot"] = boot_id()
        changed = record.model_copy(update=members)
        in_thread(self.store.write_record, changed)
        return changed


class Run:
    """An operation that this process carries out: a block, which begins with its record.

    If the block raises, or its process is killed, `recover` finishes or undoes the operation.
    """

    def __init__(self, control: Control, operation: Operation) -> None:
        self._control, self.operation = control, operation
        self._lease: Lease | None = None

    def __enter__(self) -> Self:
        control, operation = self._control, self.operation
        control.take()
        if control.store.record(operation.machine) is None:
            self.operation, self._lease = in_thread(control.store.begin_machine, operation)
            return self
        lease = self._leased()
        try:
            left = control.store.operation(operation.machine)
            if left is not None:
                recover(control, left)
            look(control, control.record(operation.machine))
            in_thread(control.store.write_operation, operation)
        except BaseException:
            lease.release()
            raise
        self._lease = lease
        return self

    def _leased(self) -> Lease:
        """The lock of the machine; waits a moment for one that nobody holds for an operation."""
        machine, name = self.operation.machine, self.operation.name
        for _ in range(LOOKS):
            try:
                return self._control.store.lease(machine, name)
            except MachineBusy as busy:
                if busy.busy_with is not None:
                    raise
            sleep(LOOK_SECONDS)
        return self._control.store.lease(machine, name)

    def step(self, step: str, *, resumes: bool | None = None) -> None:
        """Records the next step before it is done. Raises OSError: then it may not be done."""
        changes: dict[str, object] = {"step": step}
        if resumes is not None:
            changes["resumes"] = resumes
        self.operation = self.operation.model_copy(update=changes)
        in_thread(self._control.store.write_operation, self.operation)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                in_thread(self._control.store.clear_operation, self.operation.machine)
            else:
                self._undo(error)
        finally:
            if self._lease is not None:
                self._lease.release()

    def _undo(self, error: BaseException) -> None:
        try:
            recover(self._control, self.operation)
        except (VmmError, OSError) as failure:  # `reconcile` tries again
            error.add_note(f"what was begun could not be undone yet: {failure}")


def recover(control: Control, operation: Operation) -> bool:
    """Finishes (True) or undoes (False) an operation that was left half done, and forgets it.

    The caller has the lock of its machine. Raises VmmError and OSError; then the record stays, and
    it can be called again.
    """
    record = control.store.record(operation.machine)
    if record is None:
        scrap(control, operation)
        return operation.kind == "delete"
    is_finished = record.last_operation == operation.id
    match operation.kind:
        case "delete":
            scrap(control, operation)
            return True
        case "stop":
            end(control, record, operation, grace=None)
            is_finished = True
        case "start":
            is_finished = is_finished or _has_booted(control, record, operation)
            if not is_finished:
                end(control, record, operation, grace=0)
        case "pause" | "resume":
            is_finished = _switch(control, record, to_run=operation.kind == "resume")
        case "snapshot" | "clone" | "edit":
            is_finished = _wind_up(control, record, operation)
        case "create" | "restore":
            is_finished = True
    in_thread(control.store.clear_operation, operation.machine)
    return is_finished


def scrap(control: Control, operation: Operation) -> None:
    """Ends the monitor of a machine, if there is one, and removes all its files."""
    machine, store = operation.machine, control.store
    record = store.record(machine) or MachineRecord(
        id=machine,
        name=operation.name,
        definition=Definition(jail=Jail() if operation.uid else None),
        uid=operation.uid or 0,
    )
    control.monitors.find(record)
    control.monitors.end(machine, grace=0)
    for is_jailed in (True, False):
        in_thread(remove_folder, control.monitors.folder(machine, is_jailed=is_jailed))
    in_thread(store.remove_machine, machine)


def look(control: Control, record: MachineRecord) -> End | None:
    """Attaches to the monitor of a machine, unless this process has it.

    Returns how it has ended, if it has, and stores that.
    """
    if record.started_at is None:
        return None
    found = control.monitors.find(record)
    if not isinstance(found, End):
        return None
    control.change(record, **after_end(record, found))
    return found


def end(
    control: Control, record: MachineRecord, operation: Operation, grace: float | None
) -> MachineRecord:
    """Ends a machine's monitor, if it runs, and stores how it has ended."""
    ended = None
    if record.started_at is not None or operation.kind == "start":
        found = control.monitors.find(record)
        ended = found if isinstance(found, End) else control.monitors.end(record.id, grace)
    return control.change(
        record,
        should_run=record.should_run and operation.kind == "start",
        started_at=None,
        end=ended or record.end,
        failures=record.failures if operation.kind == "start" else 0,
        last_operation=record.last_operation if operation.kind == "start" else operation.id,
    )


def _has_booted(control: Control, record: MachineRecord, operation: Operation) -> bool:
    """Whether a start went so far that the guest runs; then it is stored."""
    if isinstance(control.monitors.find(record), End):
        return False
    vm = control.monitors.require(record.id, record.name)
    if (vm.get_instance_info()).state != "Running":
        return False
    members = {"should_run": True, "started_at": now(), "last_operation": operation.id}
    control.change(record, **members)
    return True


def _switch(control: Control, record: MachineRecord, *, to_run: bool) -> bool:
    """Pauses or resumes a machine; False if it does not run any more."""
    if record.started_at is None or isinstance(control.monitors.find(record), End):
        return False
    vm = control.monitors.require(record.id, record.name)
    if (vm.get_instance_info()).state == "Not started":
        return False
    timeout = control.options.snapshot_timeout  # it may still write its memory
    vm = vm.with_options(timeout=timeout)
    (vm.resume() if to_run else vm.pause())
    return True


def _wind_up(control: Control, record: MachineRecord, operation: Operation) -> bool:
    """Lets a machine run again, and removes unfinished copies."""
    if operation.resumes and _switch(control, record, to_run=True):
        go_on_if_it_can(control.monitors, record)
    if operation.kind == "edit":
        in_thread(control.store.tidy_disks, record)
        return record.last_operation == operation.id
    if operation.kind == "clone":
        return control.store.record(operation.target) is not None
    in_thread(remove_folder, control.store.new_snapshot_path(operation.target))
    return control.store.snapshot(operation.target) is not None
