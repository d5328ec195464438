"""The machines of this host: created here, stored in a registry, attached after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Final, TypeAlias

from examples.console.fields import Texts
from examples.console.hosted import HostedMonitor
from examples.console.jail import FIRST_UID
from examples.console.kept import Kept
from examples.console.launch import Launch
from examples.console.library import copy_file
from examples.console.monitors import Monitors
from examples.console.records import Event, Person, Records
from examples.console.registry import Registry
from examples.console.taps import can_make_taps

ROOT_DISK: Final = "root_drive.path_on_host"
ROOT_READ_ONLY: Final = "root_drive.is_read_only"
AtFirst: TypeAlias = Callable[["Host"], Awaitable[None]]


class NameTaken(ValueError):
    """There is a machine of that name."""


class Host(Monitors):
    """Monitors that this console starts; `at_first` adds machines to an empty host.

    Raises SettingsError if the folder of `launch` cannot be used.
    """

    def __init__(
        self, launch: Launch, suggestions: Mapping[str, str], at_first: AtFirst | None = None
    ) -> None:
        self.library = launch.library(suggestions)
        self._registry = Registry(launch.folder)
        super().__init__(
            {}, records=Records.in_folder(launch.folder, launch.kept_days), folder=launch.folder
        )
        self.suggestions = suggestions
        self.launch = launch
        launch.machines.mkdir(mode=0o700, exist_ok=True)
        launch.console("any").parent.mkdir(mode=0o700, exist_ok=True)
        self._at_first = at_first
        self.taking_disks = asyncio.Lock()
        self._work: asyncio.Future[None] | None = None
        for name, kept in self._registry.read().items():
            self._add(name, kept)

    @property
    def hosted(self) -> list[HostedMonitor]:
        """Every machine."""
        return [one for one in self._monitors.values() if isinstance(one, HostedMonitor)]

    @property
    def makes_taps(self) -> bool:
        """Whether it can create tap devices for machines; simulated ones do not need them."""
        return not self.launch.is_simulated and can_make_taps()

    @property
    def only(self) -> None:
        """There can always be more."""
        return None

    async def open(self) -> None:
        """Attach to running monitors; an empty host gets its first machines meanwhile."""
        machines = self.hosted
        for machine in machines:
            await machine.take_up()
        if not machines and self._at_first is not None:
            self._work = asyncio.ensure_future(self._at_first(self))
        await super().open()

    async def create(self, name: str, *, has_pci: bool = False) -> HostedMonitor:
        """A new machine with a running monitor.

        With PCI, devices can be added and removed while its guest runs. Raises NameTaken, VmmError
        and ValueError, and leaves nothing behind then.
        """
        if name in self._monitors:
            raise NameTaken(f"There is a machine called {name}.")
        machine = self._add(name, Kept(has_pci=has_pci, uid=self._free_user()))
        try:
            # Before the monitor starts, so that a console that is killed meanwhile loses none.
            self.keep()
            await machine.begin()
        except BaseException:
            await machine.delete()
            raise
        return machine

    async def with_own_disk(self, name: str, texts: Texts) -> Texts:
        """The form of a new machine, with a copy of its writable disk.

        Raises ValueError if the disk is not the console's, or cannot be copied.
        """
        disk = texts.get(ROOT_DISK, "").strip()
        if not disk or texts.get(ROOT_READ_ONLY):
            return texts
        self.library.require(disk, ["disks"], self.launch.directory(name, 0))
        copy = self.launch.disks / f"{self.launch.stem(name)}{Path(disk).suffix}"
        await copy_file(Path(disk), copy)
        return {**texts, ROOT_DISK: str(copy)}

    def users_of(self, path: Path) -> list[str]:
        """The machines that use a file, or run from it."""
        return [machine.name for machine in self.hosted if machine.kept.uses(path)]

    def note(self, what: str, by: Person) -> None:
        """Record an action of a user that is about no machine."""
        self.records.add_event(Event(datetime.now(UTC), by, what))

    def _free_user(self) -> int:
        """The user of a new machine's jail; 0 when machines are not jailed."""
        taken = {machine.kept.uid for machine in self.hosted}
        return (
            next(uid for uid in count(FIRST_UID) if uid not in taken) if self.launch.jailer else 0
        )

    def _add(self, name: str, kept: Kept) -> HostedMonitor:
        machine = HostedMonitor(name, self.launch, self.suggestions, self, kept)
        self._monitors[name] = machine
        return machine

    def keep(self) -> None:
        """Store the machines and their configuration."""
        gone = [machine.name for machine in self.hosted if machine.deleted]
        for name in gone:
            del self._monitors[name]
        self._registry.write({machine.name: machine.kept for machine in self.hosted})

    async def close(self) -> None:
        """Give up every monitor, or end it if it does not outlive the console."""
        await self._end_work()
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        await asyncio.gather(*(machine.close() for machine in self.hosted))
        self._registry.close()
        self.records.close()
