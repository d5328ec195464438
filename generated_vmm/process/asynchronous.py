"""The monitor as an async context manager, for the tasks of one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from generated_vmm.errors import VmmTimeoutError
from generated_vmm.facade import AsyncVmmClient
from generated_vmm.process.base import ASKING_SECONDS, ENDING, KILLING, Ending, MonitorBase
from generated_vmm.process.channels import AsyncMonitorChannel
from generated_vmm.process.child import Child
from generated_vmm.process.growing import AsyncRecent
from generated_vmm.process.log_line import LogLine
from generated_vmm.process.metrics_line import Metrics
from generated_vmm.process.outlets import LOG_LINES, METRICS_LINES, Outlets
from generated_vmm.process.place import Bare, Place
from generated_vmm.process.process import Process
from generated_vmm.process.serial import AsyncSerial
from generated_vmm.process.settings import HostPath, MonitorOptions, Settings
from generated_vmm.process.steps import async_taken, ended, guest_ended, until_ready

Result = TypeVar("Result")


class AsyncMonitor(MonitorBase[AsyncVmmClient]):
    """`Monitor` for the tasks of an event loop: what waits is awaited.

    A cancelled `start` leaves nothing; a cancelled `stop` kills the monitor rather than leave it.
    What touches files and starts the process runs in a thread.
    """

    def __init__(
        self,
        binary: HostPath | Sequence[HostPath] = "firecracker",
        **options: Unpack[MonitorOptions],
    ) -> None:
        self._set_up(Bare(binary, Settings(**options)))

    def _set_up(self, place: Place) -> None:
        self.serial = AsyncSerial(place.settings.serial_bytes, place.console_input)
        self.log: AsyncRecent[LogLine] = AsyncRecent(LOG_LINES)
        self.metrics: AsyncRecent[Metrics] = AsyncRecent(METRICS_LINES)
        self._process = Process(place, Outlets(self.serial, self.log, self.metrics))
        self._turn = asyncio.Lock()

    @classmethod
    async def attach(cls, directory: HostPath) -> Self:
        """Takes up a detached monitor that still runs, from whatever process started it.

        Raises `MonitorExited` when it has ended, `MonitorError` when the folder is none of a
        detached monitor.
        """
        return cls._taken_up(directory)

    async def start(self) -> Self:
        """Starts the monitor and waits until its socket answers.

        Raises `MonitorStartError` when it does not, with the last lines of the log; nothing is
        left of it then. A monitor is started once.
        """
        self._process.require_fresh()
        try:
            await _to_the_end(asyncio.to_thread(self._process.begin))
            await self._wait_until_ready()
            self._process.settle()
        except BaseException as error:
            await self.kill()
            explained = self._process.explained(error)
            raise explained from explained.__cause__
        self._connect()
        return self

    async def _wait_until_ready(self) -> None:
        process = self._process
        timeout = process.place.settings.timeout
        async with AsyncVmmClient(self.socket_path, timeout=timeout) as client:
            await async_taken(until_ready(process, client, Child.async_wait))

    def _connect(self) -> None:
        self._client = AsyncVmmClient(
            self.socket_path,
            max_body_bytes=self._process.place.settings.max_body_bytes,
            transport=AsyncMonitorChannel(self._process),
        )

    async def wait(self, timeout: float | None = None) -> int | None:  # noqa: ASYNC109  # as Monitor
        """Waits until the monitor has ended, and returns its `returncode`.

        Raises `VmmTimeoutError` when it has not within `timeout` seconds.
        """
        if not await self._process.child.async_wait(timeout):
            raise VmmTimeoutError(f"the monitor has not ended within {timeout} s")
        return self.returncode

    async def stop(self, grace: float | None = None) -> int | None:
        """Ends the monitor, removes its files and returns its `returncode`.

        A guest that runs gets Ctrl+Alt+Del and `grace` seconds (those of the options if None),
        then come SIGTERM and SIGKILL. Does nothing more the second time.
        """
        async with self._turn:
            try:
                if self._process.is_to_end and self.running:
                    await self._end_guest(
                        self._process.place.settings.grace if grace is None else grace
                    )
                return await self._end(ENDING)
            except asyncio.CancelledError:
                await _to_the_end(self._end(KILLING))
                raise

    async def kill(self) -> int | None:
        """Ends the monitor at once with SIGKILL, removes its files, returns its `returncode`."""
        async with self._turn:
            return await _to_the_end(self._end(KILLING))

    async def _end_guest(self, grace: float) -> None:
        process = self._process
        async with AsyncVmmClient(self.socket_path, timeout=ASKING_SECONDS) as client:
            await async_taken(guest_ended(process, client, Child.async_wait, grace))

    async def _end(self, ending: Ending) -> int | None:
        if not self._process.is_to_end:
            return self.returncode
        await async_taken(ended(self._process, Child.async_wait, ending))
        await _to_the_end(asyncio.to_thread(self._process.finish))
        if self._client is not None:
            await self._client.close()
        return self.returncode

    async def detach(self) -> None:
        """Lets go of a detached monitor: it goes on, and `attach` takes it up again.

        `MonitorError` for one that is not detached, which ends with this process.
        """
        async with self._turn:
            self._process.let_go()
            if self._client is not None:
                await self._client.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.place.settings.detached:
            return await self.detach()
        ended_badly = self._process.has_ended_badly()
        await self.stop()
        if ended_badly:
            self._process.tell_exit(error)


async def _to_the_end(work: Coroutine[Any, Any, Result]) -> Result:
    """Carries work out wholly, also when the caller is cancelled meanwhile, and then cancels."""
    task = asyncio.ensure_future(work)
    cancelled = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        task.exception()  # has been seen: the loop need not report it
        raise cancelled
    return task.result()
