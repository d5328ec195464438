"""Monitors that other programs start, with two clients each: one to read and one to change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from examples.console.chart import Chart, charts
from examples.console.events import EventLog
from examples.console.figures import KINDS, MEMORY, PROCESSOR, HostUse, of_balloon
from examples.console.history import EVERY_SECONDS, History, ended, repeated, sample_all
from examples.console.records import Records
from generated_vmm import AsyncVmmClient, FullVmConfiguration, VmmError
from generated_vmm.machines import Definition, Operation
from generated_vmm.transport import AsyncUnixChannel, Connect

LOOK_SECONDS: Final = 1.0
"""How long a page waits for a monitor that may be gone, in seconds."""
GLANCE_SECONDS: Final = 0.3
"""How long the list of machines waits for all of them, in seconds."""
TIDY_SECONDS: Final = 3600.0
"""Seconds between two clean-ups of old records."""
CHANGE_SECONDS: Final = 60.0
"""How long a change may take, in seconds; a snapshot writes the whole memory of the machine."""


class Known(NamedTuple):
    """What is known of a machine at one moment; `state` is None if the monitor must be asked."""

    state: str | None
    operation: Operation | None
    since: datetime | None
    can_boot: bool


class Monitor:
    """One machine, as pages show it; `watch` reads its monitor, and waits for no change.

    Changes wait for each other (`turn`). `key` names the machine in the records; a later machine of
    its name has another. `records` store its events; the default is in memory. `connect` replaces
    connecting to `socket_path`.
    """

    is_hosted = False
    """Whether this console starts and ends the monitor's process."""
    is_jailed = False
    """Whether it does so in a jail."""

    def __init__(
        self,
        name: str,
        socket_path: str,
        records: Records | None = None,
        connect: Connect | None = None,
        key: str = "",
    ) -> None:
        self.name, self.key = name, key or name
        self.socket_path = socket_path
        self.records = records or Records()
        self.events = EventLog(name, self.records, self.key)
        self.history = History()
        self.last_state = NO_ANSWER
        self.texts: dict[object, Any] = {}
        self._sampling = asyncio.Lock()
        self._seen = Machine(NO_ANSWER)
        self.turn = asyncio.Lock()
        channel = AsyncUnixChannel(socket_path, connect=connect)
        self.watch = AsyncVmmClient(socket_path, timeout=LOOK_SECONDS, transport=channel)
        self._control = AsyncVmmClient(socket_path, timeout=CHANGE_SECONDS)

    @property
    def suggestions(self) -> Mapping[str, str]:
        """The values of empty forms, by `section.field`."""
        return {}

    @property
    def stage(self) -> str | None:
        """The state of a machine whose monitor cannot be asked."""
        return None

    @property
    def run(self) -> str:
        """A mark that differs for each run of the machine's monitor, if it is known."""
        return ""

    @property
    def definition(self) -> Definition:
        """What the machine is made of, as far as it is known."""
        return self._seen.definition

    @property
    def known(self) -> Known:
        """What the list shows besides figures."""
        return Known(None, None, None, self.definition.can_boot)

    @property
    def operation(self) -> Operation | None:
        """What is being done with the machine, if this console starts its monitor."""
        return self.known.operation

    @property
    def progress(self) -> float | None:
        """How much of that is done, if it is known."""
        return None

    @property
    def control(self) -> AsyncVmmClient:
        """The client that makes changes."""
        return self._control

    def changing(
        self, members: Callable[[Definition], Mapping[str, object]]
    ) -> AbstractAsyncContextManager[object]:
        """A block in which devices are changed, and after which `members` are stored, if it can."""
        return nullcontext()

    async def state(self, *, within: float = LOOK_SECONDS) -> str:
        """The machine's state; `No answer` if there is no response within the seconds."""
        if (stage := self.stage) is not None:
            return stage
        try:
            return (await self.watch.with_options(timeout=within).get_instance_info()).state
        except VmmError:
            return NO_ANSWER

    async def look(self) -> Machine:
        """The machine as it is now."""
        try:
            self._seen = await self._read()
        except VmmError as error:
            self._seen = Machine(NO_ANSWER, fault=error)
        return self._seen

    async def _read(self) -> Machine:
        """What the monitor says of itself; raises VmmError."""
        instance = await self.watch.get_instance_info()
        members: dict[str, object] = {"configuration": await self.watch.vm_config.get()}
        with suppress(VmmError):  # it has no document
            members["metadata"] = await self.watch.mmds.get()
        definition = Definition.model_validate(members)
        return Machine(instance.state, definition, version=instance.vmm_version)

    async def sample(self) -> None:
        """Sample the machine's use of resources, unless that has just been done."""
        async with self._sampling:
            if self.stage or not self.history.is_fresh:
                self.history.add(await self._read_figures())

    async def _read_figures(self) -> Mapping[str, float]:
        machine = await self.look()
        self.last_state = machine.state
        try:
            return await self._figures_of(machine) if machine.is_started else {}
        except VmmError:
            return {}

    async def _figures_of(self, machine: Machine) -> Mapping[str, float]:
        """A started machine's use of resources; raises VmmError."""
        if not machine.has_statistics:
            return {}
        return of_balloon(await self.watch.balloon.stats.get())

    def charts(self) -> list[Chart]:
        """The machine's use in the last minutes, as far as it is known."""
        return charts(self.history, {**dict.fromkeys(KINDS, 0), MEMORY: self._seen.memory_mib})

    @property
    def figures(self) -> str:
        """The newest use of processor and memory, in few words."""
        kinds = (PROCESSOR, MEMORY)
        known = ((kind, self.history.latest(next(iter(kind.labels)))) for kind in kinds)
        return " · ".join(
            f"{kind.title} {kind.unit.told(value)}" for kind, value in known if value is not None
        )

    async def close(self) -> None:
        """Close both connections."""
        await self.watch.close()
        await self._control.close()


class Monitors:
    """All monitors by name, in order; other programs start and end them."""

    def __init__(
        self,
        sockets: Mapping[str, str],
        records: Records | None = None,
        folder: Path = Path("/"),
    ) -> None:
        self.records = records or Records()
        self._monitors: dict[str, Monitor] = {
            name: Monitor(name, path, self.records) for name, path in sockets.items()
        }
        self.host_use = HostUse(folder)
        self._work: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Begin to sample the monitors, and to clean up their records."""
        self.begin(self._sample, EVERY_SECONDS, "samples")
        self.begin(partial(asyncio.to_thread, self.records.tidy), TIDY_SECONDS, "tidy records")

    def begin(self, act: Callable[[], Awaitable[object]], every: float, name: str) -> None:
        """Do something every few seconds until the end."""
        self._work.append(asyncio.create_task(repeated(act, every), name=name))

    async def _sample(self) -> None:
        await sample_all([*self._monitors.values(), self.host_use])

    @property
    def all(self) -> Sequence[Monitor]:
        """Every monitor."""
        return list(self._monitors.values())

    def get(self, name: str) -> Monitor | None:
        """The monitor of that name, if there is one."""
        return self._monitors.get(name)

    async def states(self) -> list[tuple[Monitor, Known]]:
        """Every monitor with its state; requested together, so that a silent one delays none."""
        known = {monitor: monitor.known for monitor in self._monitors.values()}
        unknown = [monitor for monitor, found in known.items() if found.state is None]
        states = await asyncio.gather(
            *(monitor.state(within=GLANCE_SECONDS) for monitor in unknown)
        )
        for monitor, state in zip(unknown, states, strict=True):
            known[monitor] = known[monitor]._replace(state=state)
        return list(known.items())

    def end_streams(self) -> None:
        """End the responses that follow guests' output; there are none."""

    async def close(self) -> None:
        """Close all connections."""
        await ended(*self._work)
        for monitor in self._monitors.values():
            await monitor.close()
        self.records.close()


NOT_STARTED: Final = "Not started"
RUNNING: Final = "Running"
PAUSED: Final = "Paused"
STARTING: Final = "Starting"
ENDED: Final = "Ended"
BUSY: Final = "Busy"
NO_ANSWER: Final = "No answer"
"""The states of a machine."""
STARTED: Final = frozenset({RUNNING, PAUSED})


@dataclass(frozen=True, slots=True)
class Machine:
    """State and definition; `fault` is why the monitor did not respond.

    `version` is the release of the monitor, while it runs.
    """

    state: str
    definition: Definition = field(default_factory=Definition)
    fault: VmmError | None = None
    version: str = ""

    @property
    def configuration(self) -> FullVmConfiguration:
        """The machine's devices."""
        return self.definition.configuration

    @property
    def is_started(self) -> bool:
        """Whether the guest runs or is paused."""
        return self.state in STARTED

    @property
    def memory_mib(self) -> int:
        """The guest's memory in MiB."""
        configured = self.configuration.machine_config
        return configured.mem_size_mib if configured else 0

    @property
    def has_statistics(self) -> bool:
        """Whether the balloon reports the guest's use of memory."""
        balloon = self.configuration.balloon
        return self.is_started and balloon is not None and bool(balloon.stats_polling_interval_s)
