"""The monitors of this console, with two clients each: one to read and one to change."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue

from examples.console.archive import SPANS, Archive, tidy
from examples.console.calls import RecordedChannel
from examples.console.chart import Chart, chart
from examples.console.events import EventLog
from examples.console.figures import KINDS, MEMORY, PROCESSOR, of_balloon
from examples.console.history import History
from examples.console.host_use import HostUse
from examples.console.library import Place
from examples.console.machine import NO_ANSWER, Machine
from examples.console.records import Call, Records
from examples.console.sampling import Sampler
from examples.console.uptime import STARTED, Uptime
from generated_vmm import AsyncVmmClient, FullVmConfiguration, VmmError
from generated_vmm.machines import Operation
from generated_vmm.transport import AsyncUnixChannel, Connect

LOOK_SECONDS: Final = 1.0
"""How long a page waits for a monitor that may be gone, in seconds."""
GLANCE_SECONDS: Final = 0.3
"""How long the list of machines waits for all of them, in seconds."""
TIDY_SECONDS: Final = 3600.0
"""Seconds between two clean-ups of old records."""
CHANGE_SECONDS: Final = 60.0
"""How long a change may take, in seconds; a snapshot writes the whole memory of the machine."""


class Monitor:
    """One monitor process: `watch` reads for pages; `control` makes changes, which are recorded.

    They are two connections, so that reading never waits for a long change; changes wait for each
    other (`turn`). `key` names the machine in the records; a later machine of its name has another.
    `suggestions` are values of empty forms, by `section.field`. `records` store
    the machine's events; the default is in memory. `connect` replaces connecting to `socket_path`.
    """

    is_hosted = False
    """Whether this console starts and ends the monitor's process."""
    is_jailed = False
    """Whether it does so in a jail."""

    def __init__(
        self,
        name: str,
        socket_path: str,
        suggestions: Mapping[str, str],
        records: Records | None = None,
        connect: Connect | None = None,
        key: str = "",
    ) -> None:
        self.name, self.key = name, key or name
        self._socket_path, self._suggestions = socket_path, suggestions
        self.records = records or Records()
        self.events = EventLog(name, self.records, self.key)
        self.history, self.archive = History(), Archive(self.key, self.records)
        self.last_state = NO_ANSWER
        self.texts: dict[object, Any] = {}
        self.uptime = Uptime(socket_path)
        self._sampling = asyncio.Lock()
        self._seen: Machine | None = None
        self.turn = asyncio.Lock()
        self._refused_kernel: object = None
        ways = [AsyncUnixChannel(socket_path, connect=connect) for _ in range(2)]
        # Calls that only read are not recorded.
        self.reads: deque[Call] = deque(maxlen=20)
        read = RecordedChannel(ways[0], self.reads.append)
        recorded = RecordedChannel(ways[1], partial(self.records.add_call, self.key))
        self.watch = AsyncVmmClient(socket_path, timeout=LOOK_SECONDS, transport=read)
        self._control = AsyncVmmClient(socket_path, timeout=CHANGE_SECONDS, transport=recorded)

    @property
    def suggestions(self) -> Mapping[str, str]:
        """The values of empty forms, by `section.field`."""
        return self._suggestions

    @property
    def stage(self) -> str | None:
        """`Starting` or `Ended` if the monitor is known not to run."""
        return None

    @property
    def run(self) -> str:
        """A mark that differs for each run of the machine's monitor, if it is known."""
        return ""

    async def has_ended(self) -> bool:
        """Whether a monitor without a response is known to have ended."""
        return False

    async def admit(self, path: str, places: Sequence[Place], *, writes: bool) -> None:
        """Raises ValueError for a forbidden file; machines of other monitors may use any."""

    @property
    def socket_path(self) -> str:
        """The socket of its API."""
        return self._socket_path

    @property
    def control(self) -> AsyncVmmClient:
        """The client that makes changes, which are recorded."""
        return self._control

    @property
    def operation(self) -> Operation | None:
        """What is being done with the machine, if this console starts its monitor."""
        return None

    @property
    def progress(self) -> float | None:
        """How much of that is done, if it is known."""
        return None

    def changing(self) -> AbstractAsyncContextManager[object]:
        """A block in which devices are changed."""
        return nullcontext()

    async def state(self, *, within: float = LOOK_SECONDS) -> str:
        """The machine's state; `No answer` if there is no response within the seconds."""
        if (stage := self.stage) is not None:
            return stage
        try:
            return (await self.watch.with_options(timeout=within).get_instance_info()).state
        except VmmError:
            return NO_ANSWER

    @property
    def known_state(self) -> str | None:
        """The state, if it is known without a question to the monitor."""
        return None

    async def look(self) -> Machine:
        """The machine as it is now; raises VmmError."""
        instance = await self.watch.get_instance_info()
        configuration = self._without_refused(await self.watch.vm_config.get())
        self._seen = Machine(instance, configuration)
        return self._seen

    def note_refusal(self, key: str, fields: Mapping[str, object]) -> None:
        """Called if the monitor refused `fields` of a section, which it may show nevertheless."""
        if key == "boot_source":
            self._refused_kernel = fields.get("kernel_image_path")

    def note_acceptance(self, key: str, fields: Mapping[str, object]) -> None:
        """Called if the monitor has accepted `fields` of a section."""

    def _without_refused(self, configuration: FullVmConfiguration) -> FullVmConfiguration:
        """Firecracker shows a refused boot source as if it had accepted it."""
        source = configuration.boot_source
        if source is None or source.kernel_image_path != self._refused_kernel:
            return configuration
        return configuration.model_copy(update={"boot_source": None})

    async def metadata(self) -> dict[str, JsonValue]:
        """The document that the guest can read; raises VmmError."""
        return await self.watch.mmds.get()

    async def sample(self) -> None:
        """Sample the machine's use of resources, unless that has just been done."""
        async with self._sampling:
            if self.stage or not self.history.is_fresh:
                figures = await self._read_figures()
                self.history.add(figures)
                self.archive.add(figures)

    async def _read_figures(self) -> Mapping[str, float]:
        state = await self.state()
        self.uptime.note(state)
        self.last_state = state
        if state not in STARTED:
            self._seen = None
            return {}
        try:
            return await self._figures_of(await self._known_machine(state))
        except VmmError:
            return {}

    async def _known_machine(self, state: str) -> Machine:
        """The last known machine, if it was in this state."""
        seen = self._seen
        return seen if seen is not None and seen.state == state else await self.look()

    async def _figures_of(self, machine: Machine) -> Mapping[str, float]:
        """A started machine's use of resources; raises VmmError."""
        if not machine.has_statistics:
            return {}
        return of_balloon(await self.watch.balloon.stats.get())

    def charts(self, span: str = "minutes") -> list[Chart]:
        """The machine's use over a span, as far as it is known."""
        memory = self._seen.memory_mib if self._seen else 0
        seconds, _ = SPANS[span]
        series = self.history if span == "minutes" else self.archive.past(seconds, self.history)
        drawn = (chart(series, kind, memory if kind is MEMORY else 0) for kind in KINDS)
        return [one for one in drawn if one is not None]

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
        self.archive.flush()
        await self.watch.close()
        await self._control.close()


class Monitors:
    """All monitors by name, in order; other programs start and end them."""

    def __init__(
        self,
        sockets: Mapping[str, str],
        suggestions: Mapping[str, str] | None = None,
        records: Records | None = None,
        folder: Path = Path("/"),
    ) -> None:
        self.records = records or Records()
        self._monitors: dict[str, Monitor] = {
            name: Monitor(name, path, suggestions or {}, self.records)
            for name, path in sockets.items()
        }
        self.host_use = HostUse(self.records, folder)
        self._sampler = Sampler(lambda: [*self._monitors.values(), self.host_use])
        self._tidying: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Begin to sample the monitors, and to clean up their records."""
        self._sampler.start()
        self._tidying = asyncio.create_task(self._tidy(), name="tidy records")

    async def _tidy(self) -> None:
        while True:
            await asyncio.to_thread(tidy, self.records)
            await asyncio.sleep(TIDY_SECONDS)

    @property
    def all(self) -> Sequence[Monitor]:
        """Every monitor."""
        return list(self._monitors.values())

    def get(self, name: str) -> Monitor | None:
        """The monitor of that name, if there is one."""
        return self._monitors.get(name)

    @property
    def only(self) -> Monitor | None:
        """The monitor, if there is exactly one and there can be no more."""
        monitors = list(self._monitors.values())
        return monitors[0] if len(monitors) == 1 else None

    async def states(self) -> list[tuple[Monitor, str]]:
        """Every monitor with its state; requested together, so that a silent one delays none."""
        known = {monitor: monitor.known_state for monitor in self._monitors.values()}
        unknown = [monitor for monitor, state in known.items() if state is None]
        states = await asyncio.gather(
            *(monitor.state(within=GLANCE_SECONDS) for monitor in unknown)
        )
        known |= dict(zip(unknown, states, strict=True))
        return [(monitor, state or NO_ANSWER) for monitor, state in known.items()]

    def end_streams(self) -> None:
        """End the responses that follow guests' output; there are none."""

    async def close(self) -> None:
        """Close all connections."""
        await self._end_work()
        for monitor in self._monitors.values():
            await monitor.close()
        self.records.close()

    async def _end_work(self) -> None:
        await self._sampler.stop()
        if self._tidying is not None:
            self._tidying.cancel()
            await asyncio.wait([self._tidying])
        self.host_use.flush()
