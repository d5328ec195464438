"""Machines and snapshots, as programs use them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, Literal, Unpack, get_args

from generated_vmm import AsyncVmmClient
from generated_vmm.concurrency._async import in_thread
from generated_vmm.facade.elsewhere import MACHINE
from generated_vmm.guest import AsyncGuest
from generated_vmm.machines import records
from generated_vmm.machines._async.held import AsyncControl, AsyncHeld
from generated_vmm.machines._async.making import clone, restore, start, with_copies, write_down
from generated_vmm.machines._async.operation import carry_out, conform
from generated_vmm.machines.copies import CopyOptions, Wish, as_stored, known_disks
from generated_vmm.machines.definition import Definition, HostPath, disks_of, require_definition
from generated_vmm.machines.records import MachineError
from generated_vmm.machines.store import grow_file
from generated_vmm.misuse import Here, Told, Word, compared_after_a_call, require_kind, warn_caller
from generated_vmm.operation import Operation as VmmOperation
from generated_vmm.process import AsyncMonitor
from generated_vmm.transport.calls import Advise

STORED: Final = ("drives", "mmds", "network-interfaces", "pmem")
"""What can be set while a machine runs, by the first word of the path, and is in its definition."""
ENDED: Final = Word.of((*get_args(records.State), "Not started"), "Ended")


class AsyncMachine(Told, Here):
    """A machine of a folder; `AsyncMachines` makes and finds them.

    Its operations raise `MachineBusy` while another one runs, `MachineError` if they are not
    possible in this state, and `VmmError`, `OSError` and `ValueError` if a step fails; then what
    was begun is undone. `by` says who wants it, for others that look meanwhile.
    """

    _elsewhere = MACHINE

    def __init__(self, held: AsyncHeld) -> None:
        self._held, self.id = held, held.id
        self._given: tuple[Definition, Definition] | None = None

    @property
    def record(self) -> records.MachineRecord:
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
        if not self._is_given_changed:
            self._given = given, stored
        return given

    @property
    def _is_given_changed(self) -> bool:
        """Whether a caller has changed the copy that it got, and stored none since."""
        return self._given is not None and self._given[0] != self._given[1]

    @property
    def end(self) -> records.End | None:
        """How its last monitor has ended; None if none has."""
        return self.record.end

    @property
    def operation(self) -> records.Operation | None:
        """The operation that runs, in this process or another one, or was left half done."""
        return self._held.control.operation_of(self.id)

    @property
    def monitor(self) -> AsyncMonitor | None:
        """The monitor, with the guest's console and metrics; None unless this process has it."""
        return self._held.monitor

    @property
    def client(self) -> AsyncVmmClient:
        """The client of the monitor. Raises `MachineError` if it does not run.

        Emits a RuntimeWarning when it sets what the next start replaces: see `changing`.
        """
        client = self._held.client
        return client._with(advise=partial(self._advice, client._sender.settings.advise))

    def _advice(
        self, otherwise: Advise | None, operation: VmmOperation[object], *, is_accepted: bool
    ) -> str:
        is_put = operation.method == "PUT" or b'"path_on_host"' in (operation.body or b"")
        is_set = is_put and operation.path.split("/")[1] in STORED
        if not is_set or is_accepted or self.id in self._held.control.busy:
            return otherwise(operation, is_accepted=is_accepted) if otherwise else ""
        return "the next start replaces this: make the call in `with machine.changing(...)`"

    def guest(self) -> AsyncGuest:
        """The guest, for programs and files. Raises `MachineError` if it does not run, or if the
        definition names no agent."""
        return self._held.guest()

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
        held = self._held
        if not held.is_up and held.record.should_be != "Ended":
            held.control.require_taken()
            async with held.control.turn(self.id) as is_ours:
                if is_ours and held.monitor is None:
                    await held.look()
        return (await held.client.get_instance_info()).state if held.is_up else ENDED

    async def start(self, *, by: str = "") -> None:
        """Starts the monitor and boots the guest; does nothing if it runs.

        Raises `MachineError` if it is paused: `resume` lets it run. Emits a RuntimeWarning for a
        `definition` that was changed and not stored, for disks of which none is the root, and for
        `autostart` or `restart` before the first `reconcile`.
        """
        if self._is_given_changed:
            self._given = None
            warn_caller(
                f"machine.definition is a copy: what was changed in that of {self.name} is not "
                f"stored. Keep it in a variable, and pass it to machine.edit(...)"
            )
        definition = self.record.definition
        if (
            definition.autostart or definition.restart != "never"
        ) and not self._held.control.is_reconciled:
            warn_caller("autostart and restart need reconcile(): at first, then every second")
        async with carry_out(self._held, self._held.begun("start", by)):
            await start(self._held)

    async def pause(self, *, by: str = "") -> None:
        """Pauses a machine that runs."""
        async with carry_out(self._held, self._held.begun("pause", by)):
            self._held.require("Running", "Paused")
            await self._held.commit("pauses the machine", should_be="Paused")

    async def resume(self, *, by: str = "") -> None:
        """Lets a paused machine run again; its agent sets the clock.

        If the agent fails, the machine runs all the same, and `record.agent_error` says why.
        """
        async with carry_out(self._held, self._held.begun("resume", by)):
            self._held.require("Paused", "Running")
            await self._held.commit("resumes the machine", should_be="Running")

    async def stop(self, *, grace: float | None = None, by: str = "") -> None:
        """Ends the machine: its guest gets `grace` seconds to shut down."""
        require_kind("grace", grace, "a number of seconds", int, float)
        ended = {"should_be": "Ended", "failures": 0, "retry_at": None}
        async with carry_out(self._held, self._held.begun("stop", by)):
            await self._held.commit("ends the monitor", **ended)
            await conform(self._held, grace=grace)

    async def delete(self, *, by: str = "") -> None:
        """Ends the machine and removes it with its own disks. Its snapshots stay."""
        async with carry_out(self._held, self._held.begun("delete", by)):
            pass  # a machine that is being deleted is removed at the end

    async def edit(self, definition: Definition, *, by: str = "") -> None:
        """Replaces the definition of a machine that does not run.

        New disks that it writes to are copied, and its own disks that it no longer has are removed.
        Raises `MachineError` if somebody changes the definition before the edit begins.
        """
        require_definition(definition)
        before, self._given = self.record.definition, None
        async with carry_out(self._held, self._held.begun("edit", by)):
            self._require_still(before, Definition.model_fields)
            self._held.require("Ended")
            if (definition.jail is None) != (before.jail is None):
                raise MachineError("a machine cannot move into or out of a jail: make another one")
            made = await with_copies(self._held, definition, known_disks(before))
            await self._held.commit("changes the definition", definition=made)

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
        held, operation = self._held, self._held.begun("snapshot", by, records.new_id(), name)
        async with carry_out(held, operation):
            written = await write_down(held, operation, needs_hold=False)
            await held.step("appears")
            await in_thread(held.store.add_snapshot, written)
        return AsyncSnapshot(held.control, written)

    async def clone(self, name: str, **options: Unpack[CopyOptions]) -> AsyncMachine:
        """Makes a machine that continues from the present state of this one.

        The options are those of `CopyOptions`. Without an agent nothing gives the clone an identity
        of its own, which is logged.
        """
        return AsyncMachine(await clone(self._held, Wish(name, **options)))

    async def admit(self, path: HostPath, *, writable: bool = False) -> None:
        """Gives the machine, which runs, access to a file of the host, in a jail at the same path.

        Raises ValueError for a file that it may not use: one outside the allowed folders, or a disk
        that another machine writes to. Raises `MachineError` if it does not run, and in a process
        that does not control it.
        """
        self._held.control.require_taken()
        self._held.running()
        await self._held.admit(os.fspath(path), writable=writable)

    @asynccontextmanager
    async def changing(self, *, by: str = "", **members: object) -> AsyncIterator[None]:
        """A block in which the caller changes devices of a machine that runs, through `client`.

        At its end, these members of the definition are stored for the next start; nothing is if it
        raises. A `configuration` is stored with the disks as they are given. Raises `MachineError`
        if somebody changes one of these members before the block begins.
        """
        before, held = self.record.definition, self._held
        if "configuration" in members:
            self._given = None
        async with carry_out(held, held.begun("edit", by)):
            self._require_still(before, members)
            definition = self.record.definition.replace(**members)
            if definition.jail != self.record.definition.jail:
                raise MachineError("only `edit` changes a jail")
            known = known_disks(self.record.definition)
            made = await in_thread(as_stored, definition.configuration, held.folder, known)
            yield
            definition = definition.replace(configuration=made)
            await held.commit("changes the definition", definition=definition)

    async def grow(self, disk: str, size: int, *, by: str = "") -> None:
        """Makes one of its own disks `size` bytes long; a guest that runs is told of it.

        The guest's partitions and file systems stay as they are. If it is interrupted, a second
        call does the rest. Raises ValueError for a disk that is not its own, a smaller size, and
        one that is no multiple of 512.
        """
        require_kind("size", size, "a number of bytes, such as 2 * 1024**3", int)
        held = self._held
        async with carry_out(held, held.begun("edit", by)):
            used = {one.id: one.path for one in disks_of(self.record.definition.configuration)}
            if used.get(disk, "/").startswith("/"):
                own = ", ".join(id for id, path in used.items() if not path.startswith("/"))
                raise ValueError(f"{disk} is no disk of this machine's own: {own or 'it has none'}")
            await held.step("makes the disk longer")
            await in_thread(grow_file, held.folder / used[disk], size)
            await held.commit("tells the guest")
            if self.is_up:
                await held.client.drive(disk).update(path_on_host=used[disk])

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


class AsyncSnapshot(Here):
    """A snapshot of a folder: the memory of a machine, and copies of its disks.

    Several snapshots may have the same `name`.
    """

    def __init__(self, control: AsyncControl, record: records.SnapshotRecord) -> None:
        self._control, self.id = control, record.id
        self.name, self.created_at = record.name, record.created_at

    @property
    def record(self) -> records.SnapshotRecord:
        """The snapshot as it is stored. Raises `MachineError` if it does not exist any more."""
        return self._control.store.snapshots.the(self.id)

    @property
    def size(self) -> int:
        """The bytes that it uses on disk."""
        folder = self._control.store.snapshots.path(self.id)
        return sum(path.stat().st_blocks for path in folder.rglob("*")) * 512

    async def restore(self, name: str, **options: Unpack[CopyOptions]) -> AsyncMachine:
        """Makes a machine that continues from the snapshot, with copies of its disks.

        The options are those of `CopyOptions`. Raises `MachineError` with `renew` if the guest did
        not stand still when the snapshot was written.
        """
        return AsyncMachine(await restore(self._control, self.record, Wish(name, **options)))

    async def delete(self) -> None:
        """Removes the snapshot. Machines that continue from it are not affected."""
        _ = self.record
        self._control.take()
        await in_thread(self._control.store.snapshots.remove, self.id)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"
