"""The machines of this host: created here, and reconciled every second with what runs."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from ipaddress import IPv4Interface, IPv4Network
from pathlib import Path
from typing import Final, TypeAlias

import psutil

from examples.console.changes.create import Copy
from examples.console.events import NOBODY, on_behalf_of, person
from examples.console.forms import Fields
from examples.console.history import ended
from examples.console.hosted import HostedMonitor
from examples.console.library import Library, Place
from examples.console.monitors import Monitors
from examples.console.records import Event, Person, Records
from examples.console.settings import KEPT_DAYS, SettingsError
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


@dataclass(frozen=True, slots=True)
class Launch:
    """The program of the monitors, and the folder of machines and records.

    With `outlive`, machines continue when the console ends, and the next console attaches to them.
    Events are stored for `kept_days`. `images` has the folders `kernels` and `disks`; the default
    is in `folder`. New machines are jailed if there is a `jailer`.
    """

    binary: Sequence[str]
    folder: Path
    outlive: bool
    kept_days: int = KEPT_DAYS
    images: Path | None = None
    jailer: str | None = None

    @property
    def is_simulated(self) -> bool:
        """Whether the program is the simulated monitor, which is a module of Python."""
        return len(self.binary) > 1

    def library(self, suggestions: Mapping[str, str]) -> Library:
        """Its files, with those that the settings name. Raises OSError."""
        kernel = suggestions.get("boot_source.kernel_image_path")
        disk = suggestions.get("root_drive.path_on_host")
        given: dict[Place, list[Path]] = {
            "kernels": [Path(kernel)] if kernel else [],
            "disks": [Path(disk)] if disk else [],
        }
        return Library(self.images or self.folder / "images", given)

    @property
    def machines(self) -> Path:
        """The folder of `generated_vmm.machines`, which has no other files."""
        return self.folder / "machines"

    def console(self, machine: str) -> Path:
        """The file with the output of a machine's guest."""
        return self.folder / "consoles" / f"{machine}.log"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A whole snapshot of the machine with the id `machine`; `taken` are its bytes on disk."""

    id: str
    name: str
    machine: str
    machine_name: str
    created_at: datetime
    taken: int


class Host(Monitors):
    """Monitors that this console starts; `at_first` adds machines to an empty host.

    Raises SettingsError if the folder of `launch` cannot be used, or another console uses it.
    """

    def __init__(
        self, launch: Launch, suggestions: Mapping[str, str], at_first: AtFirst | None = None
    ) -> None:
        super().__init__(
            {}, records=Records.in_folder(launch.folder, launch.kept_days), folder=launch.folder
        )
        self.suggestions, self.launch = suggestions, launch
        self.at_first = at_first
        self._reconciling = asyncio.Lock()
        try:
            self.library = launch.library(suggestions)
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
    def jail(self) -> Jail | None:
        """The jail of new machines, if they have one."""
        return Jail() if self.launch.jailer else None

    def new_tap(self) -> tuple[TapDevice, Fields, str]:
        """A tap device, the network interface for it, and the kernel argument of its address.

        Raises ValueError if this console cannot make one; simulated machines need none.
        """
        if self.launch.is_simulated or not can_make_taps():
            raise ValueError(
                "only a console that is root, with the extra `network`, makes a network"
            )
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
        self.begin(self._reconcile, RECONCILE_SECONDS, "reconcile")
        if is_empty and self.at_first is not None:
            self._work.append(asyncio.create_task(self.at_first(self), name="first machines"))
        await super().open()

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

    async def create(self, name: str, definition: Definition) -> HostedMonitor:
        """A new machine, which does not run. Raises VmmError, OSError and ValueError."""
        machine = await self.machines.create(name, definition, by=person().name)
        return self._add(HostedMonitor(machine, self))

    async def restore(self, snapshot: str, wish: Copy) -> HostedMonitor:
        """A new machine that continues from a snapshot. Raises VmmError and OSError."""
        origin = self.snapshot(snapshot)
        made = await origin.restore(wish.name, taps=wish.devices, run=wish.run, by=person().name)
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

    def snapshots(self) -> list[Snapshot]:
        """Every snapshot, the newest first; one that is removed meanwhile is left out."""
        members, found = {"id", "name", "machine", "machine_name", "created_at"}, list[Snapshot]()
        for one in self.machines.snapshots():
            with suppress(MachineError, OSError):
                found.append(Snapshot(**one.record.model_dump(include=members), taken=one.size))
        return found

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
        async with self._reconciling:
            await ended(*self._work)
        await asyncio.gather(*(machine.close() for machine in self.hosted))
        await self.machines.close()
        self.records.close()


POOL: Final = IPv4Network("172.16.0.0/16")
"""Each tap has a network of four addresses in this range that the host does not use."""
TUN: Final = "/dev/net/tun"
FORWARDS: Final = Path("/proc/sys/net/ipv4/ip_forward")


def can_make_taps() -> bool:
    """Whether this console may create tap devices, and has the extra `network` for it."""
    is_allowed = not os.geteuid() and os.access(TUN, os.R_OK | os.W_OK)
    return is_allowed and find_spec("pyroute2") is not None


def new_tap(taken: Iterable[TapDevice]) -> tuple[TapDevice, Mapping[str, object], str]:
    """A tap device whose address neither the host nor the `taken` ones use.

    Also the members of a network interface for it, and the kernel argument with the guest's
    address. If the host forwards, the guest can reach other networks.
    """
    from generated_vmm.process.network import Tap

    found = [one for each in psutil.net_if_addrs().values() for one in each]
    used = [f"{one.address}/{one.netmask}" for one in found if one.family == socket.AF_INET]
    used += [tap.address for tap in taken if tap.address]
    networks = [IPv4Interface(one).network for one in used]
    subnets = POOL.subnets(new_prefix=30)
    free = next(one for one in subnets if not any(one.overlaps(other) for other in networks))
    nat = FORWARDS.read_text().strip() == "1"
    made = TapDevice(name=f"tap{secrets.token_hex(6)}", address=f"{free[1]}/30", nat=nat)
    device = Tap(made.name, address=made.address)
    return made, {"iface_id": "eth0", **device.interface}, device.boot_argument
