# Derived from `generated_vmm/machines/_async/operation.py` by `make codegen`. Do not edit.
"""Operations: recorded before their first step, and finished or undone after a failure or a kill.

A machine becomes what is stored of it: after an operation, a failure and a kill.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from operator import attrgetter
from typing import Final, get_args

from generated_vmm import VmmClient
from generated_vmm.concurrency._sync import finished, in_thread
from generated_vmm.errors import VmmError
from generated_vmm.guest import GuestError
from generated_vmm.machines._sync.control import Control
from generated_vmm.machines._sync.held import Held
from generated_vmm.machines.definition import Definition
from generated_vmm.machines.errors import MachineBusy, MachineError
from generated_vmm.machines.files import remove
from generated_vmm.machines.records import MachineRecord, Operation, Report, State, What, now
from generated_vmm.machines.restart import is_due, next_try
from generated_vmm.process import MonitorExited

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
    """Makes a machine as its record says; removes a machine that is incomplete or to be deleted.

    Raises VmmError and OSError. Call it again after an error. See `conform`.
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
    with suppress(OSError, MachineError):  # a full disk, of which this frees some; no record
        held.change(is_whole=False)
    for folder in held.folders():
        in_thread(remove, folder)
    in_thread(held.store.machines.remove, held.id)


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
    with control.leaving(run.held, operation):
        control.occupy(run.held, operation)
        try:
            run.begin(made)
            yield run
            settle(run.held, run.operation, grace=grace)
        except BaseException as error:
            finished(run.undo, error)
            raise
        else:
            finished(run.finish)


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
            hint = "; resume() lets it run" if state == "Paused" else ""
            found = f"is {state.lower()}" if record.end or state != "Ended" else "was not started"
            raise MachineError(f"{record.name} {found}; it must be {wanted}{hint}")

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


RESOURCES: Final = {
    "machine_config": "machine_config",
    "cpu_config": "cpu_config",
    "boot_source": "boot_source",
    "drives": "drive",
    "network_interfaces": "network_interface",
    "pmem": "pmem",
    "vsock": "vsock",
    "entropy": "entropy",
    "balloon": "balloon",
    "memory_hotplug": "hotplug_memory",
    "mmds_config": "mmds.config",
}
"""The members of the client for those of a configuration, in the order that a monitor needs."""


def furnish(vm: VmmClient, definition: Definition) -> None:
    """Sends the definition to a monitor that has none, without booting it; raises VmmError."""
    made = definition.configuration
    if made.logger is not None:
        vm.logger.set(made.logger)
    for member, name in RESOURCES.items():
        value = getattr(made, member)
        if value is None:
            continue
        for one in value if isinstance(value, list) else [value]:
            resource = attrgetter(name)(vm)
            ids = [getattr(one, id) for id in one.ids_in_path]
            (resource(*ids) if ids else resource).set(one)
    if definition.metadata is not None:
        vm.mmds.set(definition.metadata)


def start(run: Run) -> None:
    """Starts and configures the monitor, unless it runs, and commits to boot its guest."""
    held = run.held
    if held.is_up:
        return run.require("Running", "Ended")
    run.control.advise(held, starts=True)
    run.step("starts the monitor")
    in_thread(held.store.tidy_disks, held.record)
    vm = held.start()
    run.step("configures the monitor")
    furnish(vm, held.record.definition)
    known = {"started_at": now(), "retry_at": None, "agent_error": ""}
    run.commit("boots the guest", should_be="Running", **known)


def start_if_due(control: Control, held: Held) -> None:
    """Starts a machine that should run, and reports it; after a failure, it waits longer."""
    record = control.store.machines.get(held.id)
    if record is None or record.operation is not None or not is_due(record):
        return
    try:
        with carry_out(control, record.begun("start", "restart policy")) as run:
            if not is_due(held.record):  # somebody has decided otherwise meanwhile
                return
            start(run)
        control.tell(Report(what="started", machine=held.id, name=record.name))
    except MachineBusy:
        return
    except (VmmError, OSError, ValueError, Warning):  # that is an error here
        _delay(control, held)
        raise


def _delay(control: Control, held: Held) -> None:
    """Stores the moment of the next start, if there should still be one."""
    look = object()
    with control.leaving(held, look):
        if control.watch(held, look) and is_due(record := held.record):
            failures = record.failures + 1
            held.change(failures=failures, retry_at=next_try(failures, now()))
