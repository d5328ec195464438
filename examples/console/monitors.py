"""The monitors this console knows, and what one of them says right now."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from examples.console.calls import CallLog, RecordedTransport
from generated_vmm import AsyncVmmClient, FullVmConfiguration, InstanceInfo, VmmError

WATCH_SECONDS = 1.0
"""How long a page waits for a monitor that may be gone."""
CHANGE_SECONDS = 60.0
"""How long a change may take; a snapshot writes the whole memory of the machine."""


class Monitor:
    """One monitor process: `watch` reads for the pages, `control` changes and is written down.

    They are two connections, so that looking never waits for a long change. `suggestions` stand in
    empty forms, by `section.field`.
    """

    def __init__(self, name: str, socket_path: str, suggestions: Mapping[str, str]) -> None:
        self.name = name
        self.socket_path = socket_path
        self.suggestions = suggestions
        self.calls = CallLog()
        self.watch = AsyncVmmClient(socket_path, timeout=WATCH_SECONDS)
        self.control = AsyncVmmClient(
            socket_path,
            timeout=CHANGE_SECONDS,
            transport=RecordedTransport(socket_path, self.calls),
        )

    async def state(self) -> str | None:
        """`Not started`, `Running` or `Paused`; None when the monitor does not answer."""
        try:
            return (await self.watch.get_instance_info()).state
        except VmmError:
            return None

    async def aclose(self) -> None:
        """Close both connections."""
        await self.watch.close()
        await self.control.close()


@dataclass(frozen=True, slots=True)
class Machine:
    """What a monitor said of its microVM, in one look."""

    instance: InstanceInfo
    configuration: FullVmConfiguration

    @property
    def is_set_up(self) -> bool:
        """Whether the monitor has a kernel to boot."""
        source = self.configuration.boot_source
        return source is not None and bool(source.kernel_image_path)

    @property
    def is_started(self) -> bool:
        """Whether the machine has booted, so that its devices are fixed."""
        return self.instance.state != "Not started"


async def look(monitor: Monitor) -> Machine | VmmError:
    """The machine, or why the monitor could not be asked."""
    try:
        instance = await monitor.watch.get_instance_info()
        return Machine(instance, await monitor.watch.vm_config.get())
    except VmmError as error:
        return error


class Monitors:
    """All monitors by name, in the order given."""

    def __init__(self, sockets: Mapping[str, str], suggestions: Mapping[str, str]) -> None:
        self._monitors = {name: Monitor(name, path, suggestions) for name, path in sockets.items()}

    def get(self, name: str) -> Monitor | None:
        """The monitor of that name, if there is one."""
        return self._monitors.get(name)

    async def states(self) -> list[tuple[Monitor, str | None]]:
        """Every monitor with its state; asked all at once, so a silent one delays none."""
        monitors = list(self._monitors.values())
        states = await asyncio.gather(*(monitor.state() for monitor in monitors))
        return list(zip(monitors, states, strict=True))

    async def aclose(self) -> None:
        """Close all connections."""
        for monitor in self._monitors.values():
            await monitor.aclose()
