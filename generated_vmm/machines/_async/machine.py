"""Machines and snapshots, as programs use them."""

from __future__ import annotations

import os
import warnings
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, get_args

from generated_vmm import AsyncVmmClient
from generated_vmm.concurrency._async import in_thread
from generated_vmm.facade.elsewhere import MACHINE
from generated_vmm.guest import AsyncGuest
from generated_vmm.machines._async.control import AsyncControl
from generated_vmm.machines._async.held import AsyncHeld
from generated_vmm.machines._async.making import clone, copy_disks, restore, write_down
from generated_vmm.machines._async.operation import AsyncRun, carry_out, start
from generated_vmm.machines.copies import Taps, Wish, copies_of
from generated_vmm.machines.definition import Definition, disks_of, require_definition
from generated_vmm.machines.errors import MachineError
from generated_vmm.machines.files import grow_file, require_whole_disks, with_own_disks
from generated_vmm.machines.options import HostPath
from generated_vmm.machines.records import (
    End,
    Kind,
    MachineRecord,
    Operation,
    SnapshotRecord,
    State,
    new_id,
)
from generated_vmm.misuse import Told, Word, compared_after_a_call, require_kind, warn_caller
from generated_vmm.operation import Operation as VmmOperation
from generated_vmm.process import AsyncMonitor
from generated_vmm.transport.calls import Advise

STORED = ("drives", "mmds", "network-interfaces", "pmem")
"""What can be set while a machine runs, by the first word of the path, and is in its definition."""
ENDED: Final = Word.of((*get_args(State), "Not started"), "Ended")


class AsyncMachine(Told):
    """A machine of a folder; `AsyncMachines` makes and finds them.

    Its operations raise `MachineBusy` while another one runs, `MachineError` if they are not
    possible in this state, and `VmmError`, `OSError` and `ValueError` if a step fails; then what
    was begun is undone. `by` says who wants it, for others that look meanwhile.
    """

    _elsewhere = MACHINE

    def __init__(self, control: AsyncControl, held: AsyncHeld) -> None:
        self._control, self._held, self.id = control, held, held.id
        self._given: tuple[Definition, Definition] | None = None

    @property
    def record(self) -> MachineRecord:
        """The machine as it is stored, which callers share and do not change.

        Raises `MachineError` if it does not exist any more.
        """
        return self._held.record

    @property
    def name(self) -> str:
        """Its name, which another machine may have after its deletion."""
        return self.record.name

    @property
    def definition(self) -> Definition:
        """What the machine is made of at its next start.

        A copy: what is changed in it is stored by `edit`, and lost otherwise. `start` warns of it.
        """
        stored = self.record.definition
        given = stored.model_copy(deep=True)
        if not self._is_given_changed():
            self._given = given, stored
        return given

    def _is_given_changed(self) -> bool:
        """Whether a caller has changed the copy that it got, and stored none since."""
        return self._given is not None and self._given[0] != self._given[1]

    def _warn_of_lost_change(self) -> None:
        """A RuntimeWarning for the line that starts a machine without the caller's change."""
        if self._is_given_changed():
            self._given = None
            warn_caller(
                f"machine.definition is a copy: what was changed in that of {self.name} is not "
                f"stored. Keep it in a variable, and pass it to machine.edit(...)"
            )

    @property
    def end(self) -> End | None:
        """How its last monitor has ended; None if none has."""
        return self.record.end

    @property
    def operation(self) -> Operation | None:
        """The operation that runs, in this process or another one, or was left half done."""
        found = self._control.store.machines.get(self.id)
        return found.operation if found is not None else None

    @property
    def monitor(self) -> AsyncMonitor | None:
        """The monitor, with the guest's console and metrics; None unless this process has it."""
        return self._held.monitor

    @property
    def client(self) -> AsyncVmmClient:
        """The client of the monitor. Raises `MachineError` if it does not run.

        Emits a RuntimeWarning when it sets what the next start replaces: see `changing`.
        """
        client = self._seen().client
        return client._with(advise=partial(self._advice, client._sender.settings.advise))

    def _advice(
        self, otherwise: Advise | None, operation: VmmOperation[object], *, is_accepted: bool
    ) -> str:
        is_put = operation.method == "PUT" or b'"path_on_host"' in (operation.body or b"")
        is_set = is_put and operation.path.split("/")[1] in STORED
        if not is_set or is_accepted or self._held.busy is not None:
            return otherwise(operation, is_accepted=is_accepted) if otherwise else ""
        return "the next start replaces this: make the call in `with machine.changing(...)`"

    def guest(self) -> AsyncGuest:
        """The guest, for programs and files. Raises `MachineError` if it does not run, or if the
        definition names no agent."""
        return self._seen().guest()

    def vsock_path(self, port: int) -> Path:
        """The unix socket to which the guest is led that connects to `port` of its host.

        Listen there while the machine runs. Raises `MachineError` if it does not run, or has no
        vsock device.
        """
        monitor, vsock = self.monitor, self.record.definition.configuration.vsock
        if monitor is None or vsock is None:
            raise MachineError(f"{self.name} does not run, or has no vsock device")
        return monitor.outside(f"{vsock.uds_path}_{port}")

    @property
    def is_up(self) -> bool:
        """Whether its monitor runs, as far as this process knows."""
        return self._held.is_up

    @compared_after_a_call
    async def state(self) -> Literal["Ended", "Not started", "Paused", "Running"]:
        """`Running`, `Paused` or `Ended`; `Not started` for a moment of a start.

        Raises `VmmError` without a response, and `MachineError` for a machine that another process
        may have: before `reconcile`, and after `close`.
        """
        held = self._seen()
        self._control.advise(held)
        if held.monitor is None and held.record.should_be != "Ended":
            await self._control.look(held)
        return (await held.client.get_instance_info()).state if held.is_up else ENDED

    def _seen(self) -> AsyncHeld:
        """What this process has of it. Raises `MachineError` if another one may have it."""
        if not self.is_up and self.record.should_be != "Ended":
            self._control.require_taken(self.name)
        return self._held

    def _carry_out(
        self, kind: Kind, by: str, grace: float | None = None
    ) -> AbstractAsyncContextManager[AsyncRun]:
        return carry_out(self._control, self.record.begun(kind, by), grace=grace)

    async def start(self, *, by: str = "") -> None:
        """Starts the monitor and boots the guest; does nothing if it runs.

        Raises `MachineError` if it is paused: `resume` lets it run. Emits a RuntimeWarning for a
        `definition` that was changed and not stored, and for disks of which none is the root.
        """
        self._warn_of_lost_change()
        async with self._carry_out("start", by) as run:
            await start(run)

    async def pause(self, *, by: str = "") -> None:
        """Pauses a machine that runs."""
        async with self._carry_out("pause", by) as run:
            run.require("Running", "Paused")
            await run.commit("pauses the machine", should_be="Paused")

    async def resume(self, *, by: str = "") -> None:
        """Lets a paused machine run again; its agent sets the clock.

        If the agent fails, the machine runs all the same, and `record.agent_error` says why.
        """
        async with self._carry_out("resume", by) as run:
            run.require("Paused", "Running")
            await run.commit("resumes the machine", should_be="Running")

    async def stop(self, *, grace: float | None = None, by: str = "") -> None:
        """Ends the machine: its guest gets `grace` seconds to shut down."""
        require_kind("grace", grace, "a number of seconds", int, float)
        async with self._carry_out("stop", by, grace) as run:
            await run.commit("ends the monitor", should_be="Ended", failures=0, retry_at=None)

    async def delete(self, *, by: str = "") -> None:
        """Ends the machine and removes it with its own disks. Its snapshots stay."""
        async with self._carry_out("delete", by) as run:
            await run.step("removes the files")

    async def edit(self, definition: Definition, *, by: str = "") -> None:
        """Replaces the definition of a machine that does not run.

        New disks that it writes to are copied, and its own disks that it no longer has are removed.
        Raises `MachineError` if somebody changes the definition before the edit begins.
        """
        require_definition(definition)
        before, self._given = self.record.definition, None
        async with self._carry_out("edit", by) as run:
            self._require_still(before, Definition.model_fields)
            run.require("Ended")
            if (definition.jail is None) != (before.jail is None):
                raise MachineError("a machine cannot move into or out of a jail: make another one")
            known = [disk.path for disk in disks_of(before.configuration) if not disk.is_shared]
            made = await copy_disks(run, definition, known)
            await run.commit("changes the definition", definition=made)

    def _require_still(self, before: Definition, members: Iterable[str]) -> None:
        """New members were made of what the caller has read: another change would be lost."""
        now = self.record.definition
        if any(getattr(now, name, None) != getattr(before, name, None) for name in members):
            raise MachineError(
                f"the definition of {self.name} was changed meanwhile: read it again"
            )

    async def snapshot(self, name: str = "", *, by: str = "") -> AsyncSnapshot:
        """Writes the memory, with copies of the disks that the machine writes to.

        A machine that runs is paused meanwhile. The snapshot appears as a whole. If the guest's
        agent does not let it stand still, `record.is_held` is false; see `restore`.
        """
        control, snapshot = self._control, new_id()
        operation = self.record.begun("snapshot", by, snapshot, name)
        async with carry_out(control, operation) as run:
            folder = await in_thread(control.store.snapshots.begin, snapshot)
            copied = copies_of(self.record.definition)
            written = await write_down(run, folder, copied, needs_hold=False)
            await run.step("appears")
            await in_thread(control.store.snapshots.put, snapshot, written)
        return AsyncSnapshot(control, snapshot)

    async def clone(
        self,
        name: str,
        *,
        taps: Taps | None = None,
        run: bool = True,
        renew: bool = True,
        by: str = "",
    ) -> AsyncMachine:
        """Makes a machine that continues from the present state of this one.

        `taps` names a tap device for each network interface, which the two cannot share. Without
        `run`, the clone stays paused. Without `renew`, the agent does not give it an identity of
        its own, and is not needed; without an agent nothing does, which is logged.
        """
        wish = Wish(name, by, taps or {}, run, renew)
        return AsyncMachine(self._control, await clone(self._control, self.record, wish))

    async def admit(self, path: HostPath, *, writable: bool = False) -> None:
        """Gives the machine, which runs, access to a file of the host, in a jail at the same path.

        Raises ValueError for a file that it may not use: one outside the allowed folders, or a disk
        that another machine writes to. Raises `MachineError` if it does not run, and in a process
        that does not control it.
        """
        self._control.require_taken(self.name)
        _ = self.client
        await self._held.admit(os.fspath(path), writable=writable)

    def changing(self, *, by: str = "", **members: object) -> AbstractAsyncContextManager[None]:
        """A block in which the caller changes devices of a machine that runs, through `client`.

        At its end, these members of the definition are stored for the next start; nothing is if it
        raises. A `configuration` is stored with the disks as they are given. Raises `MachineError`
        if somebody changes one of these members before the block begins.
        """
        return AsyncChange(self._changing(by, members))

    @asynccontextmanager
    async def _changing(self, by: str, members: Mapping[str, object]) -> AsyncIterator[None]:
        before = self.record.definition
        if "configuration" in members:
            self._given = None
        async with self._carry_out("edit", by) as run:
            self._require_still(before, members)
            definition = self.record.definition.replace(**members)
            folder = self._held.folder
            made = await in_thread(with_own_disks, definition.configuration, folder)
            await in_thread(require_whole_disks, made, folder)
            definition = definition.replace(configuration=made)
            if definition.jail != self.record.definition.jail:
                raise MachineError("only `edit` changes a jail")
            yield
            await run.commit("changes the definition", definition=definition)

    async def grow(self, disk: str, size: int, *, by: str = "") -> None:
        """Makes one of its own disks `size` bytes long; a guest that runs is told of it.

        The guest's partitions and file systems stay as they are. If it is interrupted, a second
        call does the rest. Raises ValueError for a disk that is not its own, a smaller size, and
        one that is no multiple of 512. Emits a RuntimeWarning for the size that the disk has.
        """
        require_kind("size", size, "a number of bytes, such as 2 * 1024**3", int)
        async with self._carry_out("edit", by) as run:
            record = self.record
            used = {one.id: one.path for one in disks_of(record.definition.configuration)}
            if used.get(disk, "/").startswith("/"):
                own = ", ".join(id for id, path in used.items() if not path.startswith("/"))
                raise ValueError(f"{disk} is no disk of this machine's own: {own or 'it has none'}")
            await run.step("makes the disk longer")
            source = self._control.store.source(record, used[disk])
            before = await in_thread(grow_file, source, size)
            await run.commit("tells the guest")
            if self.is_up:
                await self.client.drive(disk).update(path_on_host=used[disk])
        if size == before:
            warn_caller(f"{disk} had {size} bytes before: size is the whole length, no growth")

    async def change(self, *, by: str = "", **members: object) -> None:
        """Stores other members of the definition, such as `restart`, also while it runs.

        The next start takes them. Raises `pydantic.ValidationError`, and TypeError for those that
        `edit` must compare: `configuration` and `jail`.
        """
        if given := {"configuration", "jail"} & members.keys():
            raise TypeError(f"change does not take {', '.join(sorted(given))}: use `edit`")
        async with self.changing(by=by, **members):
            pass

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"


class AsyncChange(AbstractAsyncContextManager[None]):
    """A block that changes a machine: a RuntimeWarning if it never begins."""

    def __init__(self, block: AbstractAsyncContextManager[None]) -> None:
        self._block, self._has_begun = block, False

    async def __aenter__(self) -> None:
        self._has_begun = True
        await self._block.__aenter__()

    async def __aexit__(self, *raised: Any) -> bool | None:
        return await self._block.__aexit__(*raised)

    def __del__(self) -> None:
        if not self._has_begun:
            message = "machine.changing(...) does nothing without `async with`"
            warnings.warn(message, RuntimeWarning, stacklevel=2)


class AsyncSnapshot:
    """A snapshot of a folder: the memory of a machine, and copies of its disks."""

    def __init__(self, control: AsyncControl, snapshot: str) -> None:
        self._control, self.id = control, snapshot

    @property
    def record(self) -> SnapshotRecord:
        """The snapshot as it is stored. Raises `MachineError` if it does not exist any more."""
        record = self._control.store.snapshots.get(self.id)
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
        folder = self._control.store.snapshots.path(self.id)
        return sum(path.stat().st_blocks for path in folder.rglob("*")) * 512

    async def restore(
        self,
        name: str,
        *,
        taps: Taps | None = None,
        run: bool = True,
        renew: bool = True,
        by: str = "",
    ) -> AsyncMachine:
        """Makes a machine that continues from the snapshot, with copies of its disks.

        `taps` names a tap device for each network interface. Without `run`, it stays paused.
        Without `renew`, the agent does not give it an identity of its own. Raises `MachineError`
        with `renew` if the guest did not stand still when the snapshot was written.
        """
        wish = Wish(name, by, taps or {}, run, renew)
        return AsyncMachine(self._control, await restore(self._control, self.record, wish))

    async def delete(self) -> None:
        """Removes the snapshot. Machines that continue from it are not affected."""
        _ = self.record
        self._control.take()
        await in_thread(self._control.store.remove_snapshot, self.id)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"
