"""Machines and snapshots, as programs use them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import TracebackType
from typing import Self

from generated_vmm import AsyncVmmClient
from generated_vmm.concurrency._async import in_thread
from generated_vmm.guest import AsyncGuest
from generated_vmm.machines._async.furnish import furnish, remember
from generated_vmm.machines._async.making import clone, edit, restore
from generated_vmm.machines._async.memory import write_down
from generated_vmm.machines._async.operation import AsyncControl, AsyncRun, end, scrap
from generated_vmm.machines._async.renewal import go_on
from generated_vmm.machines.definition import Definition, disks_of
from generated_vmm.machines.errors import MachineError
from generated_vmm.machines.files import grow_file
from generated_vmm.machines.records import (
    End,
    Kind,
    MachineRecord,
    Operation,
    SnapshotRecord,
    new_id,
    now,
)
from generated_vmm.process import AsyncMonitor


class AsyncMachine:
    """A machine of a folder; `AsyncMachines` makes and finds them.

    Its operations raise `MachineBusy` while another one runs, `MachineError` if they are not
    possible in this state, and `VmmError`, `OSError` and `ValueError` if a step fails; then what
    was begun is undone. `by` says who wants it, for others that look meanwhile.
    """

    def __init__(self, control: AsyncControl, machine: str) -> None:
        self._control, self.id = control, machine

    @property
    def record(self) -> MachineRecord:
        """The machine as it is stored. Raises `MachineError` if it does not exist any more."""
        return self._control.record(self.id)

    @property
    def name(self) -> str:
        """Its name, which another machine may have after its deletion."""
        return self.record.name

    @property
    def definition(self) -> Definition:
        """What the machine is made of at its next start."""
        return self.record.definition

    @property
    def end(self) -> End | None:
        """How its last monitor has ended; None if none has."""
        return self.record.end

    @property
    def operation(self) -> Operation | None:
        """The operation that runs, in this process or another one, or was left half done."""
        return self._control.store.operation(self.id)

    @property
    def monitor(self) -> AsyncMonitor | None:
        """The monitor, with the guest's console and metrics; None unless this process has it."""
        return self._control.monitors.get(self.id)

    @property
    def client(self) -> AsyncVmmClient:
        """The client of the monitor. Raises `MachineError` if it does not run."""
        return self._control.monitors.require(self.id, self.name)

    def guest(self) -> AsyncGuest:
        """The guest, for programs and files. Raises `MachineError` if it does not run, or if the
        definition names no agent."""
        return self._control.monitors.guest(self.record)

    @property
    def is_up(self) -> bool:
        """Whether its monitor runs, as far as this process knows."""
        monitor = self.monitor
        return monitor is not None and monitor.running

    async def state(self) -> str:
        """`Running`, `Paused`, `Not started` or `Ended`. Raises `VmmError` without a response."""
        return (await self.client.get_instance_info()).state if self.is_up else "Ended"

    def _run(self, kind: Kind, by: str, target: str = "", target_name: str = "") -> AsyncRun:
        machine, name = self.id, self.name
        operation = Operation(
            kind=kind, machine=machine, name=name, by=by, target=target, target_name=target_name
        )
        return AsyncRun(self._control, operation)

    async def start(self, *, boot: bool = True, by: str = "") -> None:
        """Starts the monitor and boots the guest; does nothing if it runs.

        Without `boot`, the guest waits for another `start`, and devices can be changed until then.
        """
        async with self._run("start", by) as run:
            record = self.record
            if not self.is_up:
                await run.step("starts the monitor")
                vm = await self._control.monitors.start(record)
                await run.step("configures the monitor")
                await furnish(vm, record.definition)
            elif await self.state() != "Not started":
                return
            if boot:
                await run.step("boots the guest")
                await self.client.action("InstanceStart")
            await self._control.change(
                record,
                should_run=boot,
                started_at=now(),
                retry_at=None,
                last_operation=run.operation.id,
            )

    async def pause(self, *, by: str = "") -> None:
        """Pauses a machine that runs."""
        async with self._run("pause", by):
            await self.client.pause()

    async def resume(self, *, by: str = "") -> None:
        """Lets a paused machine run again; its agent sets the clock.

        Raises `GuestError` if the agent fails; the machine runs then.
        """
        async with self._run("resume", by):
            await self.client.resume()
            await go_on(self._control.monitors, self.record)

    async def stop(self, *, grace: float | None = None, by: str = "") -> None:
        """Ends the machine: its guest gets `grace` seconds to shut down."""
        async with self._run("stop", by) as run:
            await run.step("ends the monitor")
            await end(self._control, self.record, run.operation, grace)

    async def delete(self, *, by: str = "") -> None:
        """Ends the machine and removes it with its own disks. Its snapshots stay."""
        async with self._run("delete", by) as run:
            await run.step("removes the files")
            await scrap(self._control, run.operation)

    async def edit(self, definition: Definition, *, by: str = "") -> None:
        """Replaces the definition of a machine that does not run.

        A monitor whose guest has not been booted gets the new one. New disks that it writes to are
        copied, and its own disks that it no longer has are removed.
        """
        async with self._run("edit", by) as run:
            was_up = self.is_up
            if was_up and await self.state() != "Not started":
                raise MachineError(f"{self.name} runs: stop it first")
            await run.step("ends the monitor")
            await self._control.monitors.end(self.id, grace=0)
            await self._control.change(self.record, started_at=None)
            await edit(self._control, run, definition)
        if was_up:
            await self.start(boot=False, by=by)

    async def snapshot(self, name: str = "", *, by: str = "") -> AsyncSnapshot:
        """Writes the memory, with copies of the disks that the machine writes to.

        A machine that runs is paused meanwhile. The snapshot appears as a whole.
        """
        control, snapshot = self._control, new_id()
        async with self._run("snapshot", by, snapshot, name) as run:
            record = await remember(control, self.record)
            folder = control.store.new_snapshot_path(snapshot)
            (folder / "disks").mkdir(mode=0o700, parents=True)
            folder.chmod(0o700)
            copies = await write_down(control, run, record, folder)
            await run.step("appears")
            made = SnapshotRecord(
                id=snapshot,
                name=name or f"{record.name}-{now():%Y%m%d-%H%M%S}",
                machine=record.id,
                machine_name=record.name,
                definition=record.definition,
                disks=copies,
            )
            await in_thread(control.store.finish_snapshot, made)
        return AsyncSnapshot(control, snapshot)

    async def clone(
        self, name: str, *, taps: Mapping[str, str] | None = None, run: bool = True, by: str = ""
    ) -> AsyncMachine:
        """Makes a machine that continues from the present state of this one.

        `taps` names a tap device for each network interface, which the two cannot share. Without
        `run`, the clone stays paused.
        """
        made = await clone(self._control, self.record, name, by, taps=taps or {}, resume=run)
        return AsyncMachine(self._control, made)

    async def admit(self, path: str, *, writable: bool = False) -> None:
        """Gives the machine, which runs, access to a file of the host, in a jail at the same path.

        Raises ValueError for a file that it may not use: one outside the allowed folders, or a disk
        that another machine writes to.
        """
        await self._control.monitors.admit(self.record, path, writable=writable)

    def changing(self, *, by: str = "") -> AsyncChanging:
        """A block in which the caller changes devices through `client`.

        At its end, the devices that the monitor shows are stored for the next start. A monitor is
        not trusted: a file that machines may not use raises ValueError.
        """
        return AsyncChanging(self._control, self._run("edit", by))

    async def grow(self, disk: str, size: int, *, by: str = "") -> None:
        """Makes one of its own disks `size` bytes long; a guest that runs is told of it.

        The guest's partitions and file systems stay as they are. Raises ValueError for a disk that
        is not its own, a size that is no larger, and one that is no multiple of 512.
        """
        async with self._run("edit", by):
            record = self.record
            used = {one.id: one.path for one in disks_of(record.definition.configuration)}
            if used.get(disk, "/").startswith("/"):
                raise ValueError(f"{disk} is no disk of this machine's own")
            await in_thread(grow_file, self._control.store.source(record, used[disk]), size)
            if self.is_up and await self.state() != "Not started":
                await self.client.drive(disk).update(path_on_host=used[disk])

    async def change(self, *, by: str = "", **members: object) -> None:
        """Stores other members of the definition, such as `restart`, also while it runs.

        Raises `pydantic.ValidationError`; the next start takes them.
        """
        async with self._run("edit", by):
            record = self.record
            definition = record.definition.replace(**members)
            await self._control.change(record, definition=definition)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"


class AsyncChanging:
    """A block in which devices of a machine are changed, as one operation."""

    def __init__(self, control: AsyncControl, run: AsyncRun) -> None:
        self._control, self._run, self._told = control, run, dict[str, object]()

    def tell(self, **members: object) -> None:
        """Stores members that no monitor shows: `serial`, `logger` or `cpu_config`."""
        self._told |= members

    async def __aenter__(self) -> Self:
        await self._run.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                record = self._control.record(self._run.operation.machine)
                await remember(self._control, record, **self._told)
        except BaseException as failure:
            await self._run.__aexit__(type(failure), failure, None)
            raise
        await self._run.__aexit__(kind, error, trace)


class AsyncSnapshot:
    """A snapshot of a folder: the memory of a machine, and copies of its disks."""

    def __init__(self, control: AsyncControl, snapshot: str) -> None:
        self._control, self.id = control, snapshot

    @property
    def record(self) -> SnapshotRecord:
        """The snapshot as it is stored. Raises `MachineError` if it does not exist any more."""
        record = self._control.store.snapshot(self.id)
        if record is None:
            raise MachineError(f"the snapshot {self.id} does not exist any more")
        return record

    @property
    def name(self) -> str:
        """Its name; several snapshots may have the same."""
        return self.record.name

    @property
    def created_at(self) -> datetime:
        """When it was made."""
        return self.record.created_at

    @property
    def size(self) -> int:
        """The bytes that it uses on disk."""
        folder = self._control.store.snapshot_path(self.id)
        return sum(path.stat().st_blocks for path in folder.rglob("*")) * 512

    async def restore(
        self, name: str, *, taps: Mapping[str, str] | None = None, run: bool = True, by: str = ""
    ) -> AsyncMachine:
        """Makes a machine that continues from the snapshot, with copies of its disks.

        `taps` names a tap device for each network interface. Without `run`, it stays paused.
        """
        control = self._control
        made = await restore(control, self.record, name, by, taps=taps or {}, resume=run)
        return AsyncMachine(control, made)

    async def delete(self) -> None:
        """Removes the snapshot. Machines that continue from it are not affected."""
        _ = self.record
        self._control.take()
        await in_thread(self._control.store.delete_snapshot, self.id)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"
