"""Memory that changes while the guest runs: the balloon and hotplugged memory.

Each body is a model, a mapping, or keyword arguments. Invalid values raise
`pydantic.ValidationError` before anything is sent; calls raise `VmmError`.
"""

from __future__ import annotations

from typing import Unpack, overload

from generated_vmm._generated import models, operations
from generated_vmm.binding import Fields, as_model
from generated_vmm.facade._async.sender import AsyncResource, AsyncSender


class AsyncBalloonStatsResource(AsyncResource):
    """Memory statistics that the guest reports."""

    async def get(self) -> models.BalloonStats:
        """The newest statistics, after the start (GET /balloon/statistics)."""
        return await self._send(operations.describe_balloon_stats())

    @overload
    async def update(self, body: models.BalloonStatsUpdate | Fields, /) -> None: ...
    @overload
    async def update(self, /, **fields: Unpack[models.BalloonStatsUpdateFields]) -> None: ...
    async def update(
        self, body: models.BalloonStatsUpdate | Fields | None = None, /, **fields: object
    ) -> None:
        """Changes the polling interval in seconds, after the start (PATCH /balloon/statistics)."""
        await self._send(
            operations.patch_balloon_stats_interval(
                as_model(models.BalloonStatsUpdate, body, fields)
            )
        )


class AsyncBalloonHintingResource(AsyncResource):
    """The guest's hints about free pages."""

    async def start(
        self,
        cmd: models.BalloonStartCmd | Fields | None = None,
        /,
        **fields: Unpack[models.BalloonStartCmdFields],
    ) -> None:
        """Starts a hinting run, after the start (PATCH /balloon/hinting/start)."""
        given = cmd is not None or fields
        await self._send(
            operations.start_balloon_hinting(
                as_model(models.BalloonStartCmd, cmd, fields) if given else None
            )
        )

    async def status(self) -> models.BalloonHintingStatus:
        """The progress of the run, after the start (GET /balloon/hinting/status)."""
        return await self._send(operations.describe_balloon_hinting())

    async def stop(self) -> None:
        """Stops the run, after the start (PATCH /balloon/hinting/stop)."""
        await self._send(operations.stop_balloon_hinting())


class AsyncBalloonResource(AsyncResource):
    """The balloon device, which takes memory back from the guest."""

    def __init__(self, sender: AsyncSender) -> None:
        super().__init__(sender)
        self.stats = AsyncBalloonStatsResource(sender)
        self.hinting = AsyncBalloonHintingResource(sender)

    async def get(self) -> models.Balloon:
        """The device's configuration, at any time (GET /balloon)."""
        return await self._send(operations.describe_balloon_config())

    @overload
    async def set(self, body: models.Balloon | Fields, /) -> None: ...
    @overload
    async def set(self, /, **fields: Unpack[models.BalloonFields]) -> None: ...
    async def set(self, body: models.Balloon | Fields | None = None, /, **fields: object) -> None:
        """Sets up the device, before the start (PUT /balloon)."""
        await self._send(operations.put_balloon(as_model(models.Balloon, body, fields)))

    @overload
    async def update(self, body: models.BalloonUpdate | Fields, /) -> None: ...
    @overload
    async def update(self, /, **fields: Unpack[models.BalloonUpdateFields]) -> None: ...
    async def update(
        self, body: models.BalloonUpdate | Fields | None = None, /, **fields: object
    ) -> None:
        """Changes the size of the balloon in MiB, after the start (PATCH /balloon)."""
        await self._send(operations.patch_balloon(as_model(models.BalloonUpdate, body, fields)))


class AsyncHotplugMemoryResource(AsyncResource):
    """Memory that can be hotplugged after the start."""

    async def get(self) -> models.MemoryHotplugStatus:
        """Sizes in MiB, after the start (GET /hotplug/memory)."""
        return await self._send(operations.get_memory_hotplug())

    @overload
    async def set(self, body: models.MemoryHotplugConfig | Fields, /) -> None: ...
    @overload
    async def set(self, /, **fields: Unpack[models.MemoryHotplugConfigFields]) -> None: ...
    async def set(
        self, body: models.MemoryHotplugConfig | Fields | None = None, /, **fields: object
    ) -> None:
        """Sets up the device, before the start (PUT /hotplug/memory)."""
        await self._send(
            operations.put_memory_hotplug(as_model(models.MemoryHotplugConfig, body, fields))
        )

    @overload
    async def update(self, body: models.MemoryHotplugSizeUpdate | Fields, /) -> None: ...
    @overload
    async def update(self, /, **fields: Unpack[models.MemoryHotplugSizeUpdateFields]) -> None: ...
    async def update(
        self, body: models.MemoryHotplugSizeUpdate | Fields | None = None, /, **fields: object
    ) -> None:
        """Requests a size in MiB, after the start (PATCH /hotplug/memory)."""
        await self._send(
            operations.patch_memory_hotplug(as_model(models.MemoryHotplugSizeUpdate, body, fields))
        )
