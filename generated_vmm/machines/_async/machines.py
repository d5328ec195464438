"""The machines of a folder, and their snapshots, as programs use them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Literal, Self, Unpack

from generated_vmm.concurrency._async import Context, in_thread
from generated_vmm.errors import VmmError
from generated_vmm.facade.elsewhere import MACHINE, MACHINES
from generated_vmm.machines import records
from generated_vmm.machines._async import making
from generated_vmm.machines._async.held import AsyncControl, AsyncHeld
from generated_vmm.machines._async.making import CopyOptions, Wish
from generated_vmm.machines._async.operation import (
    MEMORY,
    carry_out,
    conform,
    recover,
    remove_machine,
    written,
)
from generated_vmm.machines.records import Definition, HostPath, MachineError
from generated_vmm.machines.store import grow_file, make_folder
from generated_vmm.misuse import Here, Records, Told, compared_after_a_call, warn_caller


class AsyncMachine(AsyncHeld, Told, Here):
    """A machine of a folder; `AsyncMachines` makes and finds them.

    Its operations raise `MachineBusy` while another one runs, `MachineError` if they are not
    possible in this state, and `VmmError`, `OSError` and `ValueError` if a step fails; then what
    was begun is undone. `by` says who wants it, for others that look meanwhile.
    """

    _elsewhere = MACHINE

    @property
    def name(self) -> str:
        """Its name, which another machine may have after its deletion."""
        return self.record.name

    @property
    def definition(self) -> Definition:
        """What the machine is made of at its next start.

        A copy: what is changed in it is stored by `edit`, and lost otherwise.
        """
        return self.record.definition.model_copy(deep=True)

    def vsock_path(self, port: int) -> Path:
        """The unix socket to which the guest is led that connects to `port` of its host.

        Listen there while the machine runs. Raises `MachineError` if it does not run, or has no
        vsock device.
        """
        monitor, vsock = self.monitor, self.record.definition.configuration.vsock
        if monitor is None or vsock is None:
            raise MachineError(f"{self.name} does not run, or has no vsock device")
        return monitor.outside(f"{vsock.uds_path}_{port}")

    @compared_after_a_call
    async def state(self) -> Literal["Ended", "Not started", "Paused", "Running"]:
        """`Running`, `Paused` or `Ended`; `Not started` for a moment of a start.

        Raises `VmmError` without a response, and `MachineError` for a machine whose monitor this
        process does not have: before `reconcile`, and after `close`.
        """
        if self.is_up or (self.monitor is None and self.record.started_at is not None):
            return (await self.client.get_instance_info()).state
        return "Ended"

    async def start(self, *, by: str = "") -> None:
        """Starts the monitor and boots the guest; does nothing if it runs.

        Raises `MachineError` if it is paused: `resume` lets it run. Emits a RuntimeWarning for a
        disk that is not raw, such as a qcow2 image, for disks of which none is the root, and for
        `autostart` or `restart` before the first `reconcile`.
        """
        definition = self.record.definition
        is_restarted = definition.autostart or definition.restart != "never"
        if is_restarted and not self._control._is_reconciled:
            warn_caller("autostart and restart need reconcile(): at first, then every second")
        async with carry_out(self, self._begun("start", by)):
            await making.start(self)

    async def pause(self, *, by: str = "") -> None:
        """Pauses a machine that runs."""
        async with carry_out(self, self._begun("pause", by)):
            self._require("Running", "Paused")
            await self._commit("pauses the machine", should_be="Paused")

    async def resume(self, *, by: str = "") -> None:
        """Lets a paused machine run again; its agent sets the clock.

        If the agent fails, the machine runs all the same, and `record.agent_error` says why.
        """
        async with carry_out(self, self._begun("resume", by)):
            self._require("Paused", "Running")
            await self._commit("resumes the machine", should_be="Running")

    async def stop(self, *, grace: float | None = None, by: str = "") -> None:
        """Ends the machine: its guest gets `grace` seconds to shut down."""
        ended = {"should_be": "Ended", "failures": 0, "retry_at": None}
        async with carry_out(self, self._begun("stop", by)):
            await self._commit("ends the monitor", **ended)
            await conform(self, grace=grace)

    async def delete(self, *, by: str = "") -> None:
        """Ends the machine and removes it with its own disks. Its snapshots stay."""
        async with carry_out(self, self._begun("delete", by)):
            pass  # a machine that is being deleted is removed at the end

    async def edit(
        self, definition: Definition, *, for_next_start: bool = False, by: str = ""
    ) -> None:
        """Replaces the definition.

        New disks that it writes to are copied. The next start removes disks of its own that it has
        no more. Raises `MachineError` for another configuration of a machine that runs, unless it
        is `for_next_start`.
        """
        async with carry_out(self, self._begun("edit", by)):
            before = self.record.definition
            is_other = definition.configuration != before.configuration
            if self.is_up and is_other and not for_next_start:
                what = "runs on as it is: stop it, or pass for_next_start=True"
                raise MachineError(f"{self.name} {what}")
            jail = definition.jail
            is_same = jail is None or jail.uid in (None, self.record.uid)
            if (jail is None) != (before.jail is None) or not is_same:
                what = "a machine cannot move into or out of a jail, or to another user"
                raise MachineError(f"{what}: make another one")
            made = await making.with_copies(self, definition, before.own_disks.values())
            await self._commit("changes the definition", definition=made)

    async def grow(self, disk: str, size: int, *, by: str = "") -> None:
        """Makes one of its own disks `size` bytes long; a guest that runs is told of it.

        The guest's partitions and file systems stay as they are. If it is interrupted, a second
        call does the rest. Raises ValueError for a disk that is not its own, a smaller size, and
        one that is no multiple of 512.
        """
        async with carry_out(self, self._begun("edit", by)):
            path = self.record.definition.own_disks.get(disk)
            if path is None:
                raise ValueError(f"{disk} is no disk of this machine's own")
            await self._step("makes the disk longer")
            await in_thread(grow_file, self._folder / path, size)
            await self._commit("tells the guest")
            if self.is_up:
                await self.client.drive(disk).update(path_on_host=path)

    async def snapshot(self, name: str = "", *, by: str = "") -> AsyncSnapshot:
        """Writes the memory, with copies of the disks that the machine writes to.

        A machine that runs is paused meanwhile. The snapshot appears as a whole. If the definition
        names an agent, the machine must run, and its agent respond.
        """
        operation = self._begun("snapshot", by, records.new_id(), name)
        store, id = self._store.snapshots, operation.target
        async with carry_out(self, operation):
            await making.write_down(self, operation, await in_thread(make_folder, store.path(id)))
            snapshot = records.SnapshotRecord(
                id=id,
                name=name or f"{operation.name}-{records.now():%Y%m%d-%H%M%S}",
                machine=self.id,
                machine_name=operation.name,
                definition=self.record.definition,
            )
            await self._step("appears")
            await in_thread(store.put, id, snapshot)
        return AsyncSnapshot(self._control, snapshot)

    async def clone(self, name: str, **options: Unpack[CopyOptions]) -> AsyncMachine:
        """Makes a machine that continues from the present state of this one.

        The options are those of `CopyOptions`. Without an agent nothing gives the clone an identity
        of its own, which is logged.
        """
        made = await making.clone(self, Wish(name, **options))
        return AsyncMachine(self._control, made.id)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"


class AsyncSnapshot(Here):
    """A snapshot of a folder: the memory of a machine, and copies of its disks.

    Several snapshots may have the same `name`.
    """

    def __init__(self, control: AsyncControl, record: records.SnapshotRecord) -> None:
        self._control, self.record, self.id = control, record, record.id
        self.name, self.created_at = record.name, record.created_at

    @property
    def size(self) -> int:
        """The bytes that it uses on disk."""
        folder = self._control._store.snapshots.path(self.id)
        return sum(path.stat().st_blocks for path in folder.rglob("*")) * 512

    async def restore(self, name: str, **options: Unpack[CopyOptions]) -> AsyncMachine:
        """Makes a machine that continues from the snapshot, with copies of its disks.

        The options are those of `CopyOptions`.
        """
        record = self._control._store.snapshots.get(self.id)
        made = await making.restore(self._control, record, Wish(name, **options))
        return AsyncMachine(self._control, made.id)

    async def delete(self) -> None:
        """Removes the snapshot. Machines that continue from it are not affected."""
        self._control._require_control()
        await in_thread(self._control._store.snapshots.remove, self.id)


class AsyncMachines(AsyncControl, Context, Told):
    """The machines in a folder, which outlive this program.

        async with AsyncMachines("/var/lib/machines", binary="firecracker") as machines:
            for report in await machines.reconcile():
                print(report.what, report.name)
            web = await machines.create("web", Definition(configuration=configuration))
            await web.start()

    One process at a time controls the machines, in `async with` or from `take_control` until
    `close`; others may look. Raises `MachineError` for a folder of another user or another format.
    """

    _elsewhere = MACHINES

    def _those(self, found: Iterable[records.MachineRecord]) -> list[AsyncMachine]:
        named = sorted(found, key=attrgetter("name"))
        return Records(AsyncMachine(self, record.id) for record in named if record.is_whole)

    def all(self) -> list[AsyncMachine]:
        """Every machine, by name; those that are being made are in `operations`."""
        return self._those(self._store.machines.all())

    def get(self, machine: str) -> AsyncMachine:
        """The machine with this id. Raises `MachineError` if there is none."""
        return AsyncMachine(self, self._store.machines.get(machine).id)

    def find(self, name: str) -> AsyncMachine | None:
        """The machine with this name, if there is one."""
        return next((machine for machine in self.all() if machine.name == name), None)

    def operations(self) -> list[records.Operation]:
        """What runs now, in this process or another one, and what was left half done."""
        made = (one.operation for one in self._store.machines.all())
        return Records(each for each in made if each is not None)

    def written(self, operation: records.Operation) -> int | None:
        """The bytes of memory that a snapshot or a clone has written so far; None before that."""
        with suppress(OSError):
            file = written(AsyncHeld(self, operation.machine), operation)[MEMORY]
            return file.stat().st_blocks * 512
        return None

    def snapshots(self) -> list[AsyncSnapshot]:
        """Every whole snapshot, the newest first."""
        found = self._store.snapshots.all()
        found.sort(key=attrgetter("created_at"), reverse=True)
        return Records(AsyncSnapshot(self, record) for record in found)

    def users_of(self, path: HostPath) -> list[AsyncMachine]:
        """The machines that use a file, under whatever path.

        Raises `MachineError` if the record of a machine cannot be read.
        """
        return self._those(self._store.users_of(Path(path)))

    async def create(self, name: str, definition: Definition, *, by: str = "") -> AsyncMachine:
        """Makes a machine, which does not run yet.

        It gets copies of the disks that it writes to, which share blocks where the file system can.
        Raises `MachineError` for a name that is taken, ValueError for a file that it may not use,
        and OSError; nothing is left then.
        """
        operation = records.creation("create", name, by)
        held = AsyncMachine(self, operation.machine)
        async with carry_out(held, operation, definition):
            made = await making.with_copies(held, definition)
            await held._commit("appears", definition=made)
        return held

    async def reconcile(self) -> list[records.Report]:
        """Makes true what should be true; returns what was found and done since the last call.

        Operations that a killed process has left are finished or undone. Monitors that still run
        are attached. Ends are stored, and machines restarted as their definitions say. After a
        restart of the host, machines with `autostart` start in their order. Call it when the
        program starts, and then about every second. Raises `MachineError` without control.
        """
        self._require_control()
        self._is_reconciled = True
        with suppress(OSError):  # the next call tries again
            await in_thread(self._store.tidy_snapshots)
        for machine in sorted(self._store.machines.ids(), key=self._place):
            try:
                async with self._turn(machine) as is_ours:
                    if is_ours and not self._is_closed:
                        await self._bring_in_order(AsyncHeld(self, machine))
            except (VmmError, OSError, ValueError, Warning) as error:  # that is an error here
                report = records.Report(
                    what="failed", machine=machine, name=machine, why=str(error)
                )
                with suppress(MachineError):
                    record = self._store.machines.get(machine)
                    known = {"name": record.name, "operation": record.operation}
                    report = report.model_copy(update=known)
                self._reports.append(report)
        return [self._reports.pop(0) for _ in range(len(self._reports))]

    def _place(self, machine: str) -> tuple[bool, int, str]:
        """What is half made comes first."""
        with suppress(MachineError):
            record = self._store.machines.get(machine)
            return record.is_whole, record.definition.order, record.name
        return False, 0, ""

    async def _bring_in_order(self, held: AsyncHeld) -> None:
        if self._operation_of(held.id) is not None:
            await recover(held)
        if self._store.machines.find(held.id) is None:  # it is deleted
            return await remove_machine(held)
        await held._look()
        record, end = held.record, held.record.end
        if not record.is_told and end is not None:
            report = records.Report(what=end.how, machine=held.id, name=record.name, end=end)
            self._reports.append(report)
            await held._change(is_told=True)
        boot = records.boot_id()
        if record.boot != boot and record.started_at is None:  # nothing outlives a boot
            starts = {"should_be": "Running", "retry_at": None}
            await held._change(boot=boot, **starts if record.definition.autostart else {})
        if held.record.is_due:
            await making.start_again(held)

    async def __aenter__(self) -> Self:
        self.take_control()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
