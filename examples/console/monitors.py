"""The monitors this console knows: two clients each, one that looks and one that changes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from examples.console.calls import CallLog, RecordedTransport
from examples.console.chart import Chart, History
from examples.console.events import EventLog
from examples.console.machine import Machine
from examples.console.memory import MEMORY_LABELS, memory_figures
from generated_vmm import AsyncVmmClient, FullVmConfiguration, VmmError

LOOK_SECONDS: Final = 1.0
"""How long a page waits for a monitor that may be gone."""
GLANCE_SECONDS: Final = 0.3
"""How long the list of machines waits, for all of them together."""
CHANGE_SECONDS: Final = 60.0
"""How long a change may take; a snapshot writes the whole memory of the machine."""


class Monitor:
    """One monitor process: `watch` reads for the pages, `control` changes and is written down.

    They are two connections, so that looking never waits for a long change. `suggestions` stand in
    empty forms, by `section.field`.
    """

    def __init__(self, name: str, socket_path: str, suggestions: Mapping[str, str]) -> None:
        self.name = name
        self.socket_path = socket_path
        self._suggestions = suggestions
        self.calls = CallLog()
        self.events = EventLog()
        self.memory = History(MEMORY_LABELS)
        self._refused_kernel: object = None
        self.watch = AsyncVmmClient(socket_path, timeout=LOOK_SECONDS)
        self.control = AsyncVmmClient(
            socket_path,
            timeout=CHANGE_SECONDS,
            transport=RecordedTransport(socket_path, self.calls),
        )

    @property
    def suggestions(self) -> Mapping[str, str]:
        """What stands in empty forms, by `section.field`."""
        return self._suggestions

    @property
    def is_hosted(self) -> bool:
        """Whether this console starts and ends the monitor's process."""
        return False

    @property
    def stage(self) -> str | None:
        """`Starting` or `Ended` while the monitor is known not to run."""
        return None

    async def remember(self) -> None:
        """Keep what the machine is made of, if the console keeps it."""

    async def state(self, *, within: float = LOOK_SECONDS) -> str | None:
        """`Not started`, `Running`, `Paused` or the stage; None without an answer `within` s."""
        if self.stage:
            return self.stage
        try:
            return (await self.watch.with_options(timeout=within).get_instance_info()).state
        except VmmError:
            return None

    async def look(self) -> Machine:
        """The machine as it is now; raises VmmError."""
        instance = await self.watch.get_instance_info()
        return Machine(instance, self._without_refused(await self.watch.vm_config.get()))

    def note_refusal(self, key: str, fields: Mapping[str, object]) -> None:
        """The monitor did not take `fields` of a section, though it may show them as if it had."""
        if key == "boot_source":
            self._refused_kernel = fields.get("kernel_image_path")

    def _without_refused(self, configuration: FullVmConfiguration) -> FullVmConfiguration:
        """Firecracker shows the boot source that it refused last as the one it has."""
        source = configuration.boot_source
        if source is None or source.kernel_image_path != self._refused_kernel:
            return configuration
        return configuration.model_copy(update={"boot_source": None})

    async def metadata(self) -> dict[str, JsonValue]:
        """The document that the guest can read; raises VmmError."""
        return await self.watch.mmds.get()

    async def charts(self, machine: Machine) -> list[Chart]:
        """How the guest used its memory lately, as far as anybody can tell."""
        if not machine.has_statistics:
            self.memory.clear()
            return []
        try:
            self.memory.add(memory_figures(await self.watch.balloon.stats.get()))
        except VmmError:
            return []
        chart = self.memory.chart("Memory", "MiB", machine.memory_mib)
        return [chart] if chart else []

    async def close(self) -> None:
        """Close both connections."""
        await self.watch.close()
        await self.control.close()


class Monitors:
    """All monitors by name, in the order given; somebody else starts and ends them."""

    def __init__(
        self, sockets: Mapping[str, str], suggestions: Mapping[str, str] | None = None
    ) -> None:
        self._monitors: dict[str, Monitor] = {
            name: Monitor(name, path, suggestions or {}) for name, path in sockets.items()
        }

    async def open(self) -> None:
        """Begin to look after the monitors."""

    def get(self, name: str) -> Monitor | None:
        """The monitor of that name, if there is one."""
        return self._monitors.get(name)

    @property
    def only(self) -> Monitor | None:
        """The monitor, when there is just one and there can be no more."""
        monitors = list(self._monitors.values())
        return monitors[0] if len(monitors) == 1 else None

    async def states(self) -> list[tuple[Monitor, str | None]]:
        """Every monitor with its state; all are asked at once, and a silent one delays none."""
        monitors = list(self._monitors.values())
        states = await asyncio.gather(
            *(monitor.state(within=GLANCE_SECONDS) for monitor in monitors)
        )
        return list(zip(monitors, states, strict=True))

    async def close(self) -> None:
        """Close all connections."""
        for monitor in self._monitors.values():
            await monitor.close()
