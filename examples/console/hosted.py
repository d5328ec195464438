"""A machine of this host: the console starts its monitor, ends it and starts it again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from examples.console.figures import of_metrics, of_usage
from examples.console.machine import Machine
from examples.console.monitors import Monitor
from generated_vmm import FullVmConfiguration, VmmError, to_config_file
from generated_vmm.process import AsyncMonitor, AsyncSerial, Metrics, MonitorError, Usage

STARTING: Final = "Starting"
ENDED: Final = "Ended"
METRICS_SECONDS: Final = 0.5
"""How long metrics that were asked for are waited for."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How monitors are started: the program, and the folder for their files.

    `outlive`: they go on when the console ends, and it takes them up when it comes back.
    """

    binary: Sequence[str]
    folder: Path
    outlive: bool

    @property
    def machines(self) -> Path:
        """The folder with a folder for each machine."""
        return self.folder / "machines"

    @property
    def snapshots(self) -> Path:
        """The folder that is suggested for snapshots."""
        return self.folder / "snapshots"

    def directory(self, name: str) -> Path:
        """The folder of one monitor."""
        return self.machines / name

    def config_file(self, name: str) -> Path:
        """What the machine boots from when it is started again."""
        return self.machines / f"{name}.json"


class HostedMonitor(Monitor):
    """A monitor with its process; `keep` is called when what has to be kept has changed."""

    def __init__(
        self,
        name: str,
        launch: Launch,
        suggestions: Mapping[str, str],
        keep: Callable[[], None],
        configuration: FullVmConfiguration | None = None,
    ) -> None:
        super().__init__(name, str(launch.directory(name) / "api.socket"), suggestions)
        self.configuration = configuration
        self.deleted = False
        self._usage: Usage | None = None
        self._metrics_read = 0
        self._launch = launch
        self._keep = keep
        self._process: AsyncMonitor | None = None
        self._starting = False
        self._fault = ""
        self._turn = asyncio.Lock()

    @property
    def suggestions(self) -> Mapping[str, str]:
        """What stands in empty forms: new files for a snapshot, the latest ones to restore."""
        stem = self._launch.snapshots / f"{self.name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
        return {
            **super().suggestions,
            **_files("snapshot", stem),
            **_latest_snapshot(self._launch.snapshots),
        }

    @property
    def is_hosted(self) -> bool:
        """Whether this console starts and ends the monitor's process."""
        return True

    @property
    def stage(self) -> str | None:
        """`Starting` or `Ended` while the monitor does not run."""
        if self._process is not None and self._process.running:
            return None
        return STARTING if self._starting else ENDED

    @property
    def serial(self) -> AsyncSerial | None:
        """The guest's console, of the last monitor there was."""
        return self._process.serial if self._process is not None else None

    @property
    def _why_not(self) -> str:
        """Why there is nothing to look at, for people."""
        if self._starting:
            return "The monitor is starting."
        if self._fault:
            return self._fault
        again = "it boots what it was made of" if self.configuration else "it is empty then"
        return f"This machine has ended. Start it again: {again}."

    async def look(self) -> Machine:
        """The machine as it is now; raises VmmError."""
        if self.stage:
            raise MonitorError(self._why_not)
        return await super().look()

    async def _figures_of(self, machine: Machine) -> Mapping[str, float]:
        """What the guest, its monitor's process and its devices use; raises VmmError."""
        if (process := self._process) is None:
            return {}
        before, self._usage = self._usage, process.usage()
        return {
            **of_usage(before, self._usage),
            **of_metrics(await self._new_metrics(process)),
            **await super()._figures_of(machine),
        }

    async def _new_metrics(self, process: AsyncMonitor) -> Sequence[Metrics]:
        """What the monitor has counted since the last time; raises VmmError."""
        position = process.metrics.position
        await self.watch.action("FlushMetrics")
        with suppress(TimeoutError):  # what is late counts the next time
            await process.metrics.async_wait(position, METRICS_SECONDS)
        lines, self._metrics_read = process.metrics.piece(self._metrics_read)
        return lines

    async def take_up(self) -> None:
        """Go on with the monitor that an earlier console left running, if it still does."""
        with suppress(MonitorError):
            self._process = await AsyncMonitor.attach(self._launch.directory(self.name))

    async def begin(self) -> None:
        """Start the monitor, which boots what the machine was last made of.

        Does nothing while it runs. Raises VmmError, and ValueError for a path that is too long.
        """
        async with self._turn:
            if self.stage is None or self.deleted:
                return
            self._starting, self._fault = True, ""
            try:
                await self._start()
            except (VmmError, ValueError) as error:
                self._fault = f"The monitor could not be started: {error}"
                raise
            finally:
                self._starting = False

    async def _start(self) -> None:
        self._usage, self._metrics_read = None, 0
        self._seen = None
        self.history.add({})
        self.uptime.restart()
        if self._process is not None:
            await self._process.stop(0)  # what it left behind
        monitor = AsyncMonitor(
            self._launch.binary,
            id=self.name,
            directory=self._launch.directory(self.name),
            config_file=self._config_file(),
            detached=self._launch.outlive,
        )
        self._process = await monitor.start()

    def _config_file(self) -> Path | None:
        if self.configuration is None:
            return None
        path = self._launch.config_file(self.name)
        path.write_text(to_config_file(self.configuration))
        return path

    async def remember(self) -> None:
        """Keep what the machine is made of, so that it can be started again."""
        with suppress(VmmError):
            machine = await self.look()
            if machine.is_set_up:
                self.configuration = machine.configuration
                self._keep()

    async def end(self) -> None:
        """Ask the guest to shut down, and end the monitor whether it does or not."""
        async with self._turn:
            if self._process is not None:
                await self._process.stop()

    async def delete(self) -> None:
        """End the monitor at once and forget the machine; its disks are left alone."""
        async with self._turn:
            self.deleted = True
            if self._process is not None:
                await self._process.kill()
        self._launch.config_file(self.name).unlink(missing_ok=True)
        self._keep()
        await super().close()

    async def close(self) -> None:
        """Let go of the monitor, or end it when it does not outlive the console."""
        async with self._turn:
            if self._process is not None and self._process.running:
                await (self._process.detach() if self._launch.outlive else self._process.stop(0))
        await super().close()


def _files(section: str, stem: Path) -> Mapping[str, str]:
    """The two files of a snapshot, as a form names them."""
    return {
        f"{section}.snapshot_path": f"{stem}.state",
        f"{section}.mem_file_path": f"{stem}.memory",
    }


def _latest_snapshot(folder: Path) -> Mapping[str, str]:
    """The files of the newest snapshot in a folder; nothing without one."""
    states = sorted(folder.glob("*.state"), key=_modified)
    return _files("restore", states[-1].with_suffix("")) if states else {}


def _modified(path: Path) -> float:
    """When a file was written, in seconds since the epoch; 0 when it has gone meanwhile."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
