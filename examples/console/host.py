"""The machines of this host: created here, and reconciled every second with what runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias

from examples.console.changes.create import Copy
from examples.console.events import NOBODY, on_behalf_of, person
from examples.console.failures import invalid
from examples.console.fields import Fields
from examples.console.hosted import HostedMonitor
from examples.console.launch import Launch
from examples.console.monitors import Monitors
from examples.console.records import Event, Person, Records
from examples.console.settings import SettingsError
from examples.console.taps import can_make_taps, new_tap
from generated_vmm.machines import (
    AsyncMachines,
    AsyncSnapshot,
    Definition,
    Jail,
    MachineError,
    Operation,
    Report,
    TapDevice,
)

AtFirst: TypeAlias = Callable[["Host"], Coroutine[object, object, None]]
RECONCILE_SECONDS: Final = 1.0
"""Seconds between two looks for machines that have ended or should be started."""


class Host(Monitors):
    """Monitors that this console starts; `at_first` adds machines to an empty host.

    Raises SettingsError if the folder of `launch` cannot be used, or another console uses it.
    """

    def __init__(
        self, launch: Launch, suggestions: Mapping[str, str], at_first: AtFirst | None = None
    ) -> None:
        self.library = launch.library(suggestions)
        super().__init__(
            {}, records=Records.in_folder(launch.folder, launch.kept_days), folder=launch.folder
        )
        self.suggestions, self.launch = suggestions, launch
        self.at_first = at_first
        self._work: list[asyncio.Task[None]] = []
        self._reconciling = asyncio.Lock()
        try:
            self.machines = AsyncMachines(
                launch.machines,
                binary=launch.binary if launch.is_simulated else launch.binary[0],
                jailer=launch.jailer or "jailer",
                files=self.library.files,
                detached=launch.outlive,
            )
            self.machines.take_control()
            launch.console("any").parent.mkdir(mode=0o700, exist_ok=True)
        except (OSError, MachineError) as error:
            self.records.close()
            raise SettingsError(str(error)) from error
        self._meet()

    @property
    def hosted(self) -> list[HostedMonitor]:
        """Every machine."""
        return [one for one in self._monitors.values() if isinstance(one, HostedMonitor)]

    @property
    def makes_taps(self) -> bool:
        """Whether it can create tap devices for machines; simulated ones do not need them."""
        return not self.launch.is_simulated and can_make_taps()

    @property
    def jail(self) -> Jail | None:
        """The jail of new machines, if they have one."""
        return Jail() if self.launch.jailer else None

    def new_tap(self) -> tuple[TapDevice, Fields, str]:
        """A tap device, the network interface for it, and the kernel argument of its address."""
        taps = [tap for one in self.hosted for tap in one.machine.definition.taps]
        return new_tap(taps)

    @property
    def being_made(self) -> list[Operation]:
        """The operations that make machines, which are not there yet."""
        known = {one.key for one in self.hosted}
        return [one for one in self.machines.operations() if one.machine not in known]

    async def open(self) -> None:
        """Attach to running monitors, and finish or undo what a killed console has left."""
        self.records.give_up_pending()
        is_empty = not self.hosted
        await self._reconcile()
        self._work = [asyncio.create_task(self._look_after(), name="reconcile")]
        if is_empty and self.at_first is not None:
            self._work.append(asyncio.create_task(self.at_first(self), name="first machines"))
        await super().open()

    async def _look_after(self) -> None:
        while True:
            await asyncio.sleep(RECONCILE_SECONDS)
            try:
                await self._reconcile()
            except Exception:
                logging.getLogger(__name__).exception("the machines could not be reconciled")

    async def _reconcile(self) -> None:
        async with self._reconciling:  # what is reported is not reported again
            for report in await self.machines.reconcile():
                await self._tell(report)
        self._meet()
        for machine in self.hosted:
            machine.follow()

    def _meet(self) -> None:
        """Know every machine of the folder, and no other."""
        machines = {one.id: one for one in self.machines.all()}
        for known in self.hosted:
            if known.key not in machines:
                self.forget(known)
        have = {one.key for one in self.hosted}
        for machine in machines.values():
            if machine.id not in have:
                self._add(HostedMonitor(machine, self))

    async def _tell(self, report: Report) -> None:
        """Record what was found of a machine, as an event."""
        machine = next((one for one in self.hosted if one.key == report.machine), None)
        if report.end is not None and machine is not None:
            await machine.note_end(report.end)
            return
        operation = report.operation
        what = {
            "started": "Started, because it should run.",
            "failed": "An attempt to bring it in order failed, and is repeated.",
        }.get(report.what, f"After a break, this was {report.what}: ")
        by = NOBODY
        if operation is not None:
            what += f"{operation.in_words}."
            by = Person("", operation.by)
        event = Event(
            datetime.now(UTC), by, what, "", report.name, report.why, machine_id=report.machine
        )
        with on_behalf_of(by):
            self.records.add_event(event)

    def require_free(self, name: str, field: str) -> None:
        """Raises Failure, for the field of a form, if there is a machine of this name."""
        if self.machines.find(name) is not None:
            raise invalid({field: f"There is a machine called {name}."})

    async def create(self, name: str, definition: Definition) -> HostedMonitor:
        """A new machine, which does not run. Raises VmmError, OSError and ValueError."""
        machine = await self.machines.create(name, definition, by=person().name)
        return self._add(HostedMonitor(machine, self))

    async def restore(self, snapshot: str, wish: Copy) -> HostedMonitor:
        """A new machine that continues from a snapshot. Raises VmmError and OSError."""
        origin = self.snapshot(snapshot)
        made = await origin.restore(wish.name, **wish.options, by=person().name)
        return self.adopt(made.id)

    def progress(self, operation: Operation) -> float | None:
        """The part, up to 1, of the memory that an operation has written; None if none."""
        with suppress(MachineError):
            made = self.machines.get(operation.machine).definition.configuration.machine_config
            written = self.machines.written(operation)
            if made is not None and written is not None:
                return min(written / (made.mem_size_mib << 20), 1.0)
        return None

    def end_streams(self) -> None:
        """End the responses that follow guests' output, which would delay the console's end."""
        for machine in self.hosted:
            machine.feed.end()

    def adopt(self, machine: str) -> HostedMonitor:
        """A machine that was just made, by its id."""
        known = next((one for one in self.hosted if one.key == machine), None)
        made = known or self._add(HostedMonitor(self.machines.get(machine), self))
        made.follow()
        return made

    def snapshot(self, snapshot: str) -> AsyncSnapshot:
        """The snapshot with this id. Raises MachineError if there is none."""
        for one in self.machines.snapshots():
            if one.id == snapshot:
                return one
        raise MachineError("This snapshot does not exist any more.")

    def users_of(self, path: Path) -> list[str]:
        """The machines that use a file."""
        return [machine.name for machine in self.machines.users_of(path)]

    def _add(self, machine: HostedMonitor) -> HostedMonitor:
        self._monitors = dict(sorted({**self._monitors, machine.name: machine}.items()))
        return machine

    def forget(self, machine: HostedMonitor) -> None:
        """Forget a machine that was deleted."""
        if self._monitors.get(machine.name) is machine:
            del self._monitors[machine.name]

    async def close(self) -> None:
        """Give up every monitor, or end it if it does not outlive the console."""
        await self._end_work()
        async with self._reconciling:
            for task in self._work:
                task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        await asyncio.gather(*(machine.close() for machine in self.hosted))
        await self.machines.close()
        self.records.close()
