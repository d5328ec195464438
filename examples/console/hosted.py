"""A machine of this host, which this console starts, ends and restarts."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from examples.console.endings import exit_in_words, plain_lines
from examples.console.events import NOBODY, on_behalf_of, person
from examples.console.fields import shown_text
from examples.console.figures import of_metrics, of_usage
from examples.console.library import Place
from examples.console.machine import BUSY, ENDED, NO_ANSWER, STARTING, Machine
from examples.console.monitors import Monitor
from examples.console.scrollback import Scrollback
from examples.console.streams import KEPT_BYTES, Feed
from examples.console.terminal import BEHIND_BYTES, Terminal
from examples.console.uptime import STARTED, Uptime
from generated_vmm import AsyncVmmClient, CpuConfig, FullVmConfiguration, Logger, SerialDevice
from generated_vmm.machines import AsyncMachine, End, MachineError, Operation
from generated_vmm.machines.definition import disks_of
from generated_vmm.process import AsyncMonitor, AsyncSerial, Metrics, MonitorError, Usage

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
POLICY: Final = ("autostart", "order", "restart", "agent")
"""Members of a definition that no monitor shows, in their own form."""
BEGINNINGS: Final = frozenset({"start", "create", "restore"})


class _KnownUptime(Uptime):
    """The uptime of a machine whose start is stored."""

    def __init__(self, machine: AsyncMachine) -> None:
        super().__init__("")
        self._machine = machine

    def note(self, state: str) -> None:
        """Note that the machine was seen in `state`; `No answer` changes nothing."""
        if state in STARTED:
            self.since = self._machine.record.started_at
        elif state != NO_ANSWER:
            self.since = None


class HostedMonitor(Monitor):
    """A machine of the folder, as pages show it."""

    is_hosted = True

    def __init__(self, machine: AsyncMachine, house: Host) -> None:
        record = machine.record
        self.machine, self.house = machine, house
        super().__init__(
            record.name, "api.socket", house.suggestions, house.records, self._connect, record.id
        )
        self.is_jailed = record.definition.jail is not None
        self.uptime = _KnownUptime(machine)
        self._usage: Usage | None = None
        self._metrics_read = 0
        self._followed: AsyncMonitor | None = None
        self._known_start = record.started_at
        self._following: asyncio.Task[None] | None = None
        self.scrollback = Scrollback(house.launch.console(record.id))
        self.terminal = Terminal(bare_newlines=house.launch.is_simulated)
        self.terminal.feed(self.scrollback.read(BEHIND_BYTES))
        self.feed = Feed(self.scrollback.read(KEPT_BYTES))

    @property
    def suggestions(self) -> Mapping[str, str]:
        """The values of empty forms: new names, and the vsock's own socket."""
        return {
            **super().suggestions,
            "named_snapshot.name": f"{self.name}-{datetime.now(UTC):%Y%m%d-%H%M%S}",
            "vsock.uds_path": "vsock.socket",
            "clone.name": f"{self.name[:29]}-2",
            **{f"policy.{name}": shown_text(value) for name, value in self._policy.items()},
        }

    @property
    def has_agent(self) -> bool:
        """Whether the machine says that its guest has the agent."""
        return bool(self._policy.get("agent"))

    @property
    def has_vsock(self) -> bool:
        """Whether its guest can be reached, and can reach this host, without a network."""
        with suppress(MachineError):
            return self.machine.definition.configuration.vsock is not None
        return False

    @property
    def agent_error(self) -> str:
        """Why the guest's agent could not do its part at the last resume; empty if it could."""
        with suppress(MachineError):
            if why := self.machine.record.agent_error:
                return f"The guest's agent failed: {why}"
        return ""

    @property
    def _policy(self) -> Mapping[str, object]:
        """What the machine does by itself."""
        with suppress(MachineError):
            definition = self.machine.definition
            return {name: getattr(definition, name) for name in POLICY}
        return {}

    @property
    def control(self) -> AsyncVmmClient:
        """The client that makes changes. Raises MachineError if no monitor runs."""
        return self.machine.client

    @property
    def socket_path(self) -> str:
        """The socket of the monitor's API, while it runs."""
        monitor = self.machine.monitor
        return str(monitor.socket_path) if monitor is not None else super().socket_path

    @property
    def operation(self) -> Operation | None:
        """What is being done with the machine, if that takes time."""
        with suppress(MachineError):
            found = self.machine.operation
            return found if found is not None and found.kind not in AT_ONCE else None
        return None

    @property
    def progress(self) -> float | None:
        """How much of its memory is written, if an operation writes it."""
        operation = self.operation
        return self.house.progress(operation) if operation is not None else None

    @property
    def stage(self) -> str | None:
        """`Starting`, `Busy` or `Ended` while the monitor cannot be asked."""
        operation = self.operation
        if operation is not None:
            return STARTING if operation.kind in BEGINNINGS else BUSY
        return None if self.machine.is_up else ENDED

    @property
    def known_state(self) -> str | None:
        """The state as it is stored, which nobody else changes, unless the monitor was silent."""
        stage = self.stage
        if stage is not None or self.last_state == NO_ANSWER:
            return stage
        with suppress(MachineError):
            return self.machine.record.should_be
        return ENDED

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

    async def has_ended(self) -> bool:
        """Whether the monitor's process has ended, or ends within a moment."""
        for _ in range(5):
            if not self.machine.is_up:
                return True
            await asyncio.sleep(FOLLOW_SECONDS)
        return False

    @property
    def serial(self) -> AsyncSerial | None:
        """The guest's console."""
        monitor = self.machine.monitor
        return monitor.serial if monitor is not None else None

    @property
    def _why_not(self) -> str:
        """Why there is no state to show, in words; empty if there is."""
        if (operation := self.operation) is not None:
            return f"Busy: {operation.in_words}."
        if self.machine.is_up:
            return ""
        can_boot = self.machine.definition.can_boot
        again = "it boots what it was made of" if can_boot else "it is empty then"
        return f"This machine has ended. Start it again: {again}. Or edit it before."

    async def look(self) -> Machine:
        """The machine as it is now; raises VmmError."""
        if why := self._why_not:
            raise MonitorError(why)
        definition = self.machine.definition
        made = definition.configuration
        told = {"logger": made.logger, "serial": definition.serial, "cpu_config": made.cpu_config}
        known = {key: model for key, model in told.items() if model is not None}
        seen = await super().look()
        return replace(seen, is_hosted=True, has_pci=definition.enable_pci, told=known)

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
        self._followed, self._usage, self._metrics_read, self._seen = monitor, None, 0, None
        started_at = self.machine.record.started_at
        if started_at != self._known_start:
            self._known_start = started_at
            self.history.add({})
            begin = f"\r\n--- {self.name} starts, {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC\r\n"
            self.scrollback.append(begin.encode())
            self.feed.add(begin.encode())
            simulated = self.house.launch.is_simulated
            self.terminal = Terminal(*self.terminal.size, bare_newlines=simulated)
        self._following = asyncio.create_task(self._follow(monitor), name=f"console of {self.name}")

    async def _follow(self, monitor: AsyncMonitor) -> None:
        async for piece in monitor.serial.follow(0):
            self.scrollback.append(piece.data)
            self.terminal.feed(piece.data)
            self.feed.add(piece.data)
            await asyncio.sleep(FOLLOW_SECONDS)

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

    async def admit(self, path: str, places: Sequence[Place], *, writes: bool) -> None:
        """Give the machine access to a file, in a jail at the same path. Raises ValueError."""
        if not path.startswith("/"):
            own = {disk.path for disk in disks_of(self.machine.definition.configuration)}
            is_inside = "machine" in places and ".." not in PurePath(path).parts
            if path not in own and not is_inside:
                raise ValueError("This file is in none of the console's folders.")
            return
        self.house.library.require(path, places)
        await self.machine.admit(path, writable=writes)

    def changing(self) -> AbstractAsyncContextManager[object]:
        """A block in which devices are changed, and stored afterwards."""
        self._changes = self.machine.changing(by=person().name)
        return self._changes

    def note_acceptance(self, key: str, fields: Mapping[str, object]) -> None:
        """Store the accepted input of a section, if the monitor does not show it itself."""
        match key:
            case "logger":
                self._changes.tell(logger=Logger.model_validate(fields))
            case "serial":
                self._changes.tell(serial=SerialDevice.model_validate(fields))
            case "cpu_config":
                self._changes.tell(cpu_config=CpuConfig.model_validate(fields["contents"]))
            case "cpu_template":
                self._changes.tell(cpu_config=None)

    async def drop(self, take_out: Callable[[FullVmConfiguration], None]) -> None:
        """Remove a device from a machine that is not started: its monitor is restarted."""
        definition = self.machine.definition
        made = definition.configuration.model_copy(deep=True)
        take_out(made)
        await self.machine.edit(definition.replace(configuration=made), by=person().name)
        self.follow()

    async def begin(self, *, boot: bool = True) -> None:
        """Start the monitor with the machine's devices, and `boot` it if it can."""
        await self.machine.start(boot=boot and self.machine.definition.can_boot, by=person().name)
        self.follow()

    async def end(self) -> None:
        """Ask the guest to shut down, and end the monitor in any case."""
        was_up = self.machine.is_up
        await self.machine.stop(by=person().name)
        if was_up and (end := self.machine.end) is not None:
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
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait([self._following])
        await super().close()
