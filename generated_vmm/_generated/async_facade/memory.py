"""Memory that comes and goes while the guest runs: the balloon and hotplugged memory.

Derived from `generated_vmm/facade/memory.py` by `make codegen`. Do not edit.
"""

from __future__ import annotations

from typing import Unpack, overload

from generated_vmm._generated.async_facade.sender import AsyncResource, AsyncSender
from generated_vmm._generated.models import (
    Balloon,
    BalloonFields,
    BalloonHintingStatus,
    BalloonStartCmd,
    BalloonStartCmdFields,
    BalloonStats,
    BalloonStatsUpdate,
    BalloonStatsUpdateFields,
    BalloonUpdate,
    BalloonUpdateFields,
    MemoryHotplugConfig,
    MemoryHotplugConfigFields,
    MemoryHotplugSizeUpdate,
    MemoryHotplugSizeUpdateFields,
    MemoryHotplugStatus,
)
from generated_vmm._generated.operations import (
    describe_balloon_config,
    describe_balloon_hinting,
    describe_balloon_stats,
    get_memory_hotplug,
    patch_balloon,
    patch_balloon_stats_interval,
    patch_memory_hotplug,
    put_balloon,
    put_memory_hotplug,
    start_balloon_hinting,
    stop_balloon_hinting,
)
from generated_vmm.binding import Fields, as_model


class AsyncBalloonStatsResource(AsyncResource):
    """Statistics that the guest reports."""

    async def get(self) -> BalloonStats:
        """The newest statistics, after the start (GET /balloon/statistics)."""
        return await self._send(describe_balloon_stats())

    @overload
    async def update(self, body: BalloonStatsUpdate | Fields, /) -> None: ...

    @overload
    async def update(self, /, **fields: Unpack[BalloonStatsUpdateFields]) -> None: ...

    async def update(
        self, body: BalloonStatsUpdate | Fields | None = None, /, **fields: object
    ) -> None:
        """Changes the polling interval in seconds, after the start (PATCH /balloon/statistics)."""
        await self._send(patch_balloon_stats_interval(as_model(BalloonStatsUpdate, body, fields)))


class AsyncBalloonHintingResource(AsyncResource):
    """Hints of the guest about pages that are free."""

    async def start(
        self,
        cmd: BalloonStartCmd | Fields | None = None,
        /,
        **fields: Unpack[BalloonStartCmdFields],
    ) -> None:
        """Starts a run, after the start (PATCH /balloon/hinting/start)."""
        given = cmd is not None or fields
        await self._send(
            start_balloon_hinting(as_model(BalloonStartCmd, cmd, fields) if given else None)
        )

    async def status(self) -> BalloonHintingStatus:
        """How far the run is, after the start (GET /balloon/hinting/status)."""
        return await self._send(describe_balloon_hinting())

    async def stop(self) -> None:
        """Stops the run, after the start (PATCH /balloon/hinting/stop)."""
        await self._send(stop_balloon_hinting())


class AsyncBalloonResource(AsyncResource):
    """The balloon device, which takes memory back from the guest."""

    def __init__(self, sender: AsyncSender) -> None:
        super().__init__(sender)
        self.stats = AsyncBalloonStatsResource(sender)
        self.hinting = AsyncBalloonHintingResource(sender)

    async def get(self) -> Balloon:
        """The device's configuration, at any time (GET /balloon)."""
        return await self._send(describe_balloon_config())

    @overload
    async def set(self, body: Balloon | Fields, /) -> None: ...

    @overload
    async def set(self, /, **fields: Unpack[BalloonFields]) -> None: ...

    async def set(self, body: Balloon | Fields | None = None, /, **fields: object) -> None:
        """Sets the device up, before the start (PUT /balloon)."""
        await self._send(put_balloon(as_model(Balloon, body, fields)))

    @overload
    async def update(self, body: BalloonUpdate | Fields, /) -> None: ...

    @overload
    async def update(self, /, **fields: Unpack[BalloonUpdateFields]) -> None: ...

    async def update(self, body: BalloonUpdate | Fields | None = None, /, **fields: object) -> None:
        """Changes the size of the balloon in MiB, after the start (PATCH /balloon)."""
        await self._send(patch_balloon(as_model(BalloonUpdate, body, fields)))


class AsyncHotplugMemoryResource(AsyncResource):
    """Memory that can be plugged after the start."""

    async def get(self) -> MemoryHotplugStatus:
        """Sizes in MiB, after the start (GET /hotplug/memory)."""
        return await self._send(get_memory_hotplug())

    @overload
    async def set(self, body: MemoryHotplugConfig | Fields, /) -> None: ...

    @overload
    async def set(self, /, **fields: Unpack[MemoryHotplugConfigFields]) -> None: ...

    async def set(
        self, body: MemoryHotplugConfig | Fields | None = None, /, **fields: object
    ) -> None:
        """Sets the device up, before the start (PUT /hotplug/memory)."""
        await self._send(put_memory_hotplug(as_model(MemoryHotplugConfig, body, fields)))

    @overload
    async def update(self, body: MemoryHotplugSizeUpdate | Fields, /) -> None: ...

    @overload
    async def update(self, /, **fields: Unpack[MemoryHotplugSizeUpdateFields]) -> None: ...

    async def update(
        self, body: MemoryHotplugSizeUpdate | Fields | None = None, /, **fields: object
    ) -> None:
        """Asks for a size in MiB, after the start (PATCH /hotplug/memory)."""
        await self._send(patch_memory_hotplug(as_model(MemoryHotplugSizeUpdate, body, fields)))
