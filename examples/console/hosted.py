"""A machine of this host: the console starts, ends and restarts its monitor."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from examples.console.endings import exit_in_words, plain_lines
from examples.console.events import NOBODY, on_behalf_of
from examples.console.figures import of_metrics, of_usage
from examples.console.jail import admit, admit_all
from examples.console.kept import Kept, furnish
from examples.console.launch import Launch
from examples.console.library import Place
from examples.console.machine import ENDED, STARTING, Machine
from examples.console.monitors import Monitor
from examples.console.scrollback import Scrollback
from examples.console.taps import new_tap, tap_of
from examples.console.terminal import BEHIND_BYTES, Terminal
from generated_vmm import FullVmConfiguration, VmmError, VmmTimeoutError
from generated_vmm.process import (
    AsyncJailedMonitor,
    AsyncMonitor,
    AsyncSerial,
    Metrics,
    MonitorError,
    Usage,
)

if TYPE_CHECKING:
    from examples.console.host import Host
    from generated_vmm.process.network import Tap

ENDING_SECONDS: Final = 0.25
"""Seconds that a monitor may need to end after it has closed its connections."""
FOLLOW_SECONDS: Final = 0.05
"""The pause between two reads of a guest's output, in seconds."""
LAST_LINES: Final = 5
"""The number of lines of console and log that are recorded when a monitor has ended."""
METRICS_SECONDS: Final = 0.5
"""How long to wait for requested metrics, in seconds."""


class HostedMonitor(Monitor):
    """A monitor with its process; its `house` is informed of changes that must be stored."""

    is_hosted = True

    def __init__(
        self, name: str, launch: Launch, suggestions: Mapping[str, str], house: Host, kept: Kept
    ) -> None:
        socket_path = str(launch.socket(name, kept.uid))
        super().__init__(name, socket_path, suggestions, house.records, self._connect)
        self.launch, self.house, self.kept = launch, house, kept
        self.is_jailed, self.deleted = bool(kept.uid), False
        self._usage: Usage | None = None
        self._metrics_read = 0
        self._process: AsyncMonitor | None = None
        self._starting, self._fault = False, ""
        self._turn, self._networks = asyncio.Lock(), AsyncExitStack()
        self._watching: asyncio.Task[None] | None = None
        self.scrollback = Scrollback(launch.console(name))
        self.terminal = Terminal(bare_newlines=launch.is_simulated)
        self.terminal.feed(self.scrollback.read(BEHIND_BYTES))

    @property
    def suggestions(self) -> Mapping[str, str]:
        """The values of empty forms: new files to write, the latest ones to restore."""
        return {**super().suggestions, **self.launch.suggestions(self.name, self.kept.uid)}

    @property
    def stage(self) -> str | None:
        """`Starting` or `Ended` while the monitor does not run."""
        if self._starting:
            return STARTING
        return None if self._process is not None and self._process.running else ENDED

    def _connect(self, connection: socket.socket) -> None:
        """Connect to the monitor, and to no other process at its path. Raises OSError."""
        if self._process is None:
            raise FileNotFoundError(self.socket_path)
        self._process.connect(connection)

    @property
    def run(self) -> str:
        """The number of the monitor's process, while it runs."""
        process = self._process
        return str(process.pid) if process is not None and process.running else ""

    async def has_ended(self) -> bool:
        """Whether the monitor's process has ended, or ends within a moment."""
        with suppress(VmmTimeoutError):
            if self._process is not None:
                await self._process.wait(ENDING_SECONDS)
        return self.stage == ENDED

    @property
    def serial(self) -> AsyncSerial | None:
        """The guest's console, of the last monitor."""
        return self._process.serial if self._process is not None else None

    @property
    def _why_not(self) -> str:
        """Why there is no state to show, in words."""
        if self._starting:
            return "The monitor is starting."
        if self._fault:
            return self._fault
        again = "it boots what it was made of" if self.kept.can_boot else "it is empty then"
        return f"This machine has ended. Start it again: {again}. Or edit it before."

    async def look(self) -> Machine:
        """The machine as it is now; raises VmmError."""
        if self.stage:
            raise MonitorError(self._why_not)
        seen = await super().look()
        return replace(seen, is_hosted=True, has_pci=self.kept.has_pci, told=self.kept.told)

    async def _figures_of(self, machine: Machine) -> Mapping[str, float]:
        """The use of resources by guest, process and devices; raises VmmError."""
        if (process := self._process) is None:
            return {}
        before, self._usage = self._usage, process.usage()
        return {
            **of_usage(before, self._usage),
            **of_metrics(await self._new_metrics(process)),
            **await super()._figures_of(machine),
        }

    async def _new_metrics(self, process: AsyncMonitor) -> Sequence[Metrics]:
        """The monitor's counts since the last call; raises VmmError."""
        position = process.metrics.position
        await self.watch.action("FlushMetrics")
        with suppress(TimeoutError):  # late counts are in the next call
            await process.metrics.wait(position, METRICS_SECONDS)
        lines, self._metrics_read = process.metrics.piece(self._metrics_read)
        return lines

    async def take_up(self) -> None:
        """Attach to the monitor that an earlier console left running, if it still runs."""
        try:
            self._process = await self.launch.attach(self.name, self.kept.uid)
            self._watch(self._process)
        except MonitorError as error:
            if self.kept.runs:
                self._note_end("The monitor ended while the console was away.", str(error))

    def _watch(self, process: AsyncMonitor) -> None:
        self._watching = asyncio.create_task(self._follow(process), name=f"console of {self.name}")

    async def _follow(self, process: AsyncMonitor) -> None:
        """Store the guest's output, and record how its monitor has ended."""
        async for piece in process.serial.follow(0):
            self.scrollback.append(piece.data)
            self.terminal.feed(piece.data)
            await asyncio.sleep(FOLLOW_SECONDS)
        await process.wait()
        log = [line.message for line in process.log][-LAST_LINES:]
        self._note_end(f"The monitor ended: {exit_in_words(process.returncode)}.", *log)

    def _note_end(self, what: str, *log: str) -> None:
        last = self.events.last_done()
        written = plain_lines(self.scrollback.read(BEHIND_BYTES))[-LAST_LINES:]
        actor = f"{last.by.name or 'nobody'}: {last.what}" if last else "nobody"
        parts = {"Last action": [actor], "Console": written, "Log": log}
        lines = [f"{name}: {line}" for name, lines in parts.items() for line in lines]
        with on_behalf_of(NOBODY):
            self.events.add(what, detail="\n".join(lines))
        self.kept.runs = False
        self.house.keep()

    @property
    def jail(self) -> AsyncJailedMonitor | None:
        """The monitor if it is jailed."""
        return self._process if isinstance(self._process, AsyncJailedMonitor) else None

    async def admit(
        self, path: str, places: Sequence[Place], *, writes: bool, at: str | None = None
    ) -> None:
        """Give the machine access to a file, in a jail at the same path or `at` another."""
        await admit(self, path, places, writes=writes, at=at)

    def new_disks(self, drive_ids: Iterable[str]) -> dict[str, Path]:
        """The paths for copies of disks, by the drive's name."""
        stem = self.launch.stem(self.name)
        return {one: self.launch.disks / f"{stem}-{one}" for one in drive_ids}

    async def drop(self, take_out: Callable[[FullVmConfiguration], None]) -> None:
        """Remove a device from a machine that is not started: its monitor is restarted."""
        made = (await self.look()).configuration
        take_out(made)
        self.kept.configuration = made
        async with self._turn:
            if self._process is not None:
                await self._process.kill()
                await self._settled()
        await self.begin(boot=False)

    async def make_tap(self) -> Tap:
        """Create a tap device for this machine, until it ends. Raises MonitorError."""
        taken = (machine.kept.tap for machine in self.house.hosted)
        self.kept.tap = new_tap(tap for tap in taken if tap)
        return await self._networks.enter_async_context(tap_of(self.kept.tap, self.kept.uid))

    async def begin(self, *, boot: bool = True) -> None:
        """Start the monitor, and `boot` the machine's last configuration.

        Does nothing while it runs. Raises VmmError, and ValueError for a path that is too long.
        """
        async with self._turn:
            if self.stage is None or self.deleted:
                return
            self._starting, self._fault = True, ""
            try:
                await self._start(boot=boot)
            except (VmmError, ValueError) as error:
                self._fault = f"The monitor could not be started: {error}"
                raise
            finally:
                self._starting = False

    async def _start(self, *, boot: bool) -> None:
        self._usage, self._metrics_read, self._seen = None, 0, None
        self.history.add({})
        self.uptime.restart()
        if self._process is not None:
            await self._process.stop(0)  # leftovers
        await self._settled()
        self._remove_vsock()
        await self._networks.aclose()
        if tap := self.kept.needed_tap:
            await self._networks.enter_async_context(tap_of(tap, self.kept.uid))
        self.kept.last_snapshot, self.kept.backing = None, ""
        begin = f"\r\n--- {self.name} starts, {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC\r\n"
        self.scrollback.append(begin.encode())
        self.terminal = Terminal(*self.terminal.size, bare_newlines=self.launch.is_simulated)
        process = await self.launch.monitor(self.name, self.kept).start()
        self._process = process
        try:
            await admit_all(self)
            await furnish(self.control, self.kept, boot=boot)
        except BaseException:
            await process.kill()
            raise
        self.kept.runs = True
        self.house.keep()
        self._watch(process)

    def note_acceptance(self, key: str, fields: Mapping[str, object]) -> None:
        """Store the accepted input of a section, if the monitor does not show it itself."""
        self.kept.note(key, fields)

    async def remember(self) -> None:
        """Store the machine's configuration, so that it can be started again."""
        with suppress(VmmError):
            self.kept.see((await self.look()).configuration)
            self.kept.metadata = await self.metadata()
        self.house.keep()

    async def _settled(self) -> None:
        """Record the monitor's last output, and how it ended."""
        if self._watching is not None:
            await asyncio.wait([self._watching])

    async def end(self) -> None:
        """Ask the guest to shut down, and end the monitor in any case."""
        async with self._turn:
            if self._process is not None:
                await self._process.stop()
                await self._settled()
            await self._networks.aclose()

    async def delete(self) -> None:
        """Kill the monitor and remove the machine, without its disks."""
        async with self._turn:
            self.deleted = True
            if self._process is not None:
                await self._process.kill()
                await self._settled()
            await self._networks.aclose()
        self._remove_vsock()
        self.house.keep()
        self.scrollback.remove()
        await super().close()

    def _remove_vsock(self) -> None:
        """Remove the socket of an ended monitor: the next one could not create it."""
        if not self.kept.uid:  # else it is removed with the jail
            self.launch.vsock(self.name, 0).unlink(missing_ok=True)

    async def close(self) -> None:
        """Give up the monitor, or end it if it does not outlive the console."""
        async with self._turn:
            if self._process is not None and self._process.running:
                await self._let_go(self._process)
            await self._networks.aclose()
        await super().close()

    async def _let_go(self, process: AsyncMonitor) -> None:
        if self.launch.outlive:
            await process.detach()
            if self._watching is not None:
                self._watching.cancel()
        else:
            await process.stop(0)
        await self._settled()
