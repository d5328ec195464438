"""A machine of this host, which this console starts, ends and restarts."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from examples.console.events import NOBODY, on_behalf_of, person
from examples.console.figures import of_metrics, of_usage
from examples.console.history import ended
from examples.console.monitors import (
    BUSY,
    ENDED,
    NO_ANSWER,
    NOT_STARTED,
    STARTING,
    Known,
    Machine,
    Monitor,
)
from examples.console.output import (
    BEHIND_BYTES,
    KEPT_BYTES,
    SIZES,
    Feed,
    Scrollback,
    exit_in_words,
    plain_lines,
    screen_of,
)
from generated_vmm import AsyncVmmClient, VmmError
from generated_vmm.machines import (
    AsyncMachine,
    Definition,
    End,
    MachineError,
    MachineRecord,
    Operation,
)
from generated_vmm.process import AsyncMonitor, AsyncSerial, Metrics, Usage

if TYPE_CHECKING:
    from examples.console.host import Host

FOLLOW_SECONDS: Final = 0.05
"""The pause between two reads of a guest's output, in seconds."""
LAST_LINES: Final = 5
"""The number of lines of the console that are recorded when a monitor has ended."""
METRICS_SECONDS: Final = 0.5
"""How long to wait for requested metrics, in seconds."""
SETTLE_SECONDS: Final = 2.0
"""How long to wait for the last output of an ended monitor, in seconds."""
AT_ONCE: Final = frozenset({"edit", "pause", "resume"})
"""Operations that take no time worth showing."""
BEGINNINGS: Final = frozenset({"start", "create", "restore"})


def busy_with(record: MachineRecord) -> Operation | None:
    """What is being done with a machine, if that takes time."""
    found = record.operation
    return found if found is not None and found.kind not in AT_ONCE else None


class HostedMonitor(Monitor):
    """A machine of the folder, as pages show it."""

    is_hosted = True

    def __init__(self, machine: AsyncMachine, house: Host) -> None:
        record = self._record = machine.record
        self.machine, self.house = machine, house
        super().__init__(record.name, "api.socket", house.records, self._connect, record.id)
        self.is_jailed = record.definition.jail is not None
        self.typed_at: dict[str, float] = {}
        self.terminals: dict[str, str] = {}  # the last one that each person has opened
        self._usage: Usage | None = None
        self._metrics_read = 0
        self._followed: AsyncMonitor | None = None
        self._known_start = record.started_at
        self._following: asyncio.Task[None] | None = None
        self.scrollback = Scrollback(house.launch.console(record.id))
        self.screen_size = SIZES[1]
        self.feed = Feed(self.scrollback.read(KEPT_BYTES))

    @property
    def suggestions(self) -> Mapping[str, str]:
        """The values of empty forms: those of the settings, and new names."""
        return {
            **self.house.suggestions,
            "named_snapshot.name": f"{self.name}-{datetime.now(UTC):%Y%m%d-%H%M%S}",
            "clone.name": f"{self.name[:29]}-2",
        }

    @property
    def record(self) -> MachineRecord:
        """The machine as it is stored; as it was last, once it is deleted."""
        with suppress(MachineError):
            self._record = self.machine.record
        return self._record

    @property
    def definition(self) -> Definition:
        """What the machine is made of."""
        return self.record.definition

    @property
    def agent_error(self) -> str:
        """Why the guest's agent could not do its part at the last resume; empty if it could."""
        why = self.record.agent_error
        return f"The guest's agent failed: {why}" if why else ""

    @property
    def control(self) -> AsyncVmmClient:
        """The client that makes changes. Raises MachineError if no monitor runs."""
        return self.machine.client

    @property
    def known(self) -> Known:
        """What the record says; an operation only if it takes time.

        The state is as it is stored, which nobody else changes, unless the monitor was silent.
        """
        record = self.record
        state = self._stage_of(record)
        if state is None and self.last_state != NO_ANSWER:
            state = record.should_be
        return Known(state, busy_with(record), record.started_at, record.definition.can_boot)

    @property
    def progress(self) -> float | None:
        """How much of its memory is written, if an operation writes it."""
        operation = self.operation
        return self.house.progress(operation) if operation is not None else None

    @property
    def stage(self) -> str | None:
        """Its state while the monitor cannot be asked."""
        return self._stage_of(self.record)

    def _stage_of(self, record: MachineRecord) -> str | None:
        operation = busy_with(record)
        if operation is not None:
            return STARTING if operation.kind in BEGINNINGS else BUSY
        if self.machine.is_up:
            return None
        return ENDED if record.started_at or record.end else NOT_STARTED

    def _connect(self, connection: socket.socket) -> None:
        """Connect to the monitor, and to no other process at its path. Raises OSError."""
        monitor = self.machine.monitor
        if monitor is None:
            raise FileNotFoundError(self.socket_path)
        monitor.connect(connection)

    @property
    def run(self) -> str:
        """The number of the monitor's process, while it runs."""
        monitor = self.machine.monitor
        return str(monitor.pid) if monitor is not None and monitor.running else ""

    @property
    def serial(self) -> AsyncSerial | None:
        """The guest's console."""
        monitor = self.machine.monitor
        return monitor.serial if monitor is not None else None

    async def _read(self) -> Machine:
        """The state, and what the machine is made of as it is stored; raises VmmError."""
        stage, definition = self.stage, self.definition
        if stage is not None:
            return Machine(stage, definition)
        try:
            instance = await self.watch.get_instance_info()
            return Machine(instance.state, definition, version=instance.vmm_version)
        except VmmError as error:
            return Machine(NO_ANSWER, definition, error)

    async def _figures_of(self, machine: Machine) -> Mapping[str, float]:
        """The use of resources by guest, process and devices; raises VmmError."""
        if (monitor := self.machine.monitor) is None:
            return {}
        before, self._usage = self._usage, monitor.usage()
        return {
            **of_usage(before, self._usage),
            **of_metrics(await self._new_metrics(monitor)),
            **await super()._figures_of(machine),
        }

    async def _new_metrics(self, monitor: AsyncMonitor) -> Sequence[Metrics]:
        """The monitor's counts since the last call; raises VmmError."""
        position = monitor.metrics.position
        await self.watch.action("FlushMetrics")
        with suppress(TimeoutError):  # late counts are in the next call
            await monitor.metrics.wait(position, METRICS_SECONDS)
        lines, self._metrics_read = monitor.metrics.piece(self._metrics_read)
        return lines

    def follow(self) -> None:
        """Store the output of the guest, also of a monitor that has just been started."""
        monitor = self.machine.monitor
        if monitor is None or monitor is self._followed:
            return
        self._followed, self._usage, self._metrics_read = monitor, None, 0
        started_at = self.machine.record.started_at
        if started_at != self._known_start:
            self._known_start = started_at
            self.history.add({})
            begin = f"\r\n--- {self.name} starts, {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC\r\n"
            self.scrollback.append(begin.encode())
            self.feed.add(begin.encode())
        self._following = asyncio.create_task(self._follow(monitor), name=f"console of {self.name}")

    async def _follow(self, monitor: AsyncMonitor) -> None:
        async for piece in monitor.serial.follow(0):
            self.scrollback.append(piece.data)
            self.feed.add(piece.data)
            await asyncio.sleep(FOLLOW_SECONDS)

    async def screen(self) -> list[str]:
        """The rows of the guest's screen, interpreted in a thread."""
        bare, output = self.house.launch.is_simulated, self.feed.last(BEHIND_BYTES)
        return await asyncio.to_thread(screen_of, output, *self.screen_size, bare_newlines=bare)

    async def note_end(self, end: End) -> None:
        """Record how the monitor has ended, with the guest's last output."""
        if self._following is not None:
            await asyncio.wait([self._following], timeout=SETTLE_SECONDS)
        last = self.events.last_done()
        written = plain_lines(self.scrollback.read(BEHIND_BYTES))[-LAST_LINES:]
        actor = f"{last.by.name or 'nobody'}: {last.what}" if last else "nobody"
        parts = {"Last action": [actor], "Console": written, "Log": end.log}
        lines = [f"{name}: {line}" for name, lines in parts.items() for line in lines]
        what = f"The monitor ended: {exit_in_words(end.returncode)}."
        if end.how == "lost":
            what = "The monitor was lost: nobody saw how it ended."
        with on_behalf_of(NOBODY):
            await self.events.add(what, detail="\n".join(lines))

    @asynccontextmanager
    async def changing(
        self, members: Callable[[Definition], Mapping[str, object]]
    ) -> AsyncIterator[None]:
        """A block in which devices are changed, and after which `members` are stored."""
        definition = self.machine.definition
        definition = definition.replace(**members(definition))
        yield
        await self.edit(definition)

    async def edit(self, definition: Definition) -> None:
        """Change what the machine is made of at its next start."""
        await self.machine.edit(definition, for_next_start=True, by=person().name)

    async def start(self) -> None:
        """Start the machine."""
        await self.machine.start(by=person().name)
        self.follow()

    async def end(self) -> None:
        """Ask the guest to shut down, and end the monitor in any case."""
        was_up = self.machine.is_up
        await self.machine.stop(by=person().name)
        if was_up and (end := self.machine.record.end) is not None:
            await self.note_end(end)

    async def delete(self) -> None:
        """End the monitor and remove the machine with its own disks."""
        await self.machine.delete(by=person().name)
        await self.close()
        self.house.forget(self)
        self.scrollback.remove()

    async def close(self) -> None:
        """Stop following the guest's output."""
        self.feed.end()
        await ended(self._following)
        await super().close()
