# Derived from `generated_vmm/facade/_async/memory.py` by `make codegen`. Do not edit.
"""Memory that changes while the guest runs: the balloon and hotplugged memory.

Each body is a model, a mapping, or keyword arguments. Invalid values raise
`pydantic.ValidationError` before anything is sent; calls raise `VmmError`.
"""

from __future__ import annotations

from typing import Unpack, overload

from generated_vmm._generated import models, operations
from generated_vmm.binding import Fields, as_model
from generated_vmm.facade._sync.sender import Resource, Sender


class BalloonStatsResource(Resource):
    """Memory statistics that the guest reports."""

    def get(self) -> models.BalloonStats:
        """The newest statistics, after the start (GET /balloon/statistics)."""
        return self._send(operations.describe_balloon_stats())

    @overload
    def update(self, body: models.BalloonStatsUpdate | Fields, /) -> None: ...
    @overload
    def update(self, /, **fields: Unpack[models.BalloonStatsUpdateFields]) -> None: ...
    def update(
        self, body: models.BalloonStatsUpdate | Fields | None = None, /, **fields: object
    ) -> None:
        """Changes the polling interval in seconds, after the start (PATCH /balloon/statistics)."""
        self._send(
            operations.patch_balloon_stats_interval(
                as_model(models.BalloonStatsUpdate, body, fields)
            )
        )


class BalloonHintingResource(Resource):
    """The guest's hints about free pages."""

    def start(
        self,
        cmd: models.BalloonStartCmd | Fields | None = None,
        /,
        **fields: Unpack[models.BalloonStartCmdFields],
    ) -> None:
        """Starts a hinting run, after the start (PATCH /balloon/hinting/start)."""
        given = cmd is not None or fields
        self._send(
            operations.start_balloon_hinting(
                as_model(models.BalloonStartCmd, cmd, fields) if given else None
            )
        )

    def status(self) -> models.BalloonHintingStatus:
        """The progress of the run, after the start (GET /balloon/hinting/status)."""
        return self._send(operations.describe_balloon_hinting())

    def stop(self) -> None:
        """Stops the run, after the start (PATCH /balloon/hinting/stop)."""
        self._send(operations.stop_balloon_hinting())


class BalloonResource(Resource):
    """The balloon device, which takes memory back from the guest."""

    def __init__(self, sender: Sender) -> None:
        super().__init__(sender)
        self.stats = BalloonStatsResource(sender)
        self.hinting = BalloonHintingResource(sender)

    def get(self) -> models.Balloon:
        """The device's configuration, at any time (GET /balloon)."""
        return self._send(operations.describe_balloon_config())

    @overload
    def set(self, body: models.Balloon | Fields, /) -> None: ...
    @overload
    def set(self, /, **fields: Unpack[models.BalloonFields]) -> None: ...
    def set(self, body: models.Balloon | Fields | None = None, /, **fields: object) -> None:
        """Sets up the device, before the start (PUT /balloon)."""
        self._send(operations.put_balloon(as_model(models.Balloon, body, fields)))

    @overload
    def update(self, body: models.BalloonUpdate | Fields, /) -> None: ...
    @overload
    def update(self, /, **fields: Unpack[models.BalloonUpdateFields]) -> None: ...
    def update(
        self, body: models.BalloonUpdate | Fields | None = None, /, **fields: object
    ) -> None:
        """Changes the size of the balloon in MiB, after the start (PATCH /balloon)."""
        self._send(operations.patch_balloon(as_model(models.BalloonUpdate, body, fields)))


class HotplugMemoryResource(Resource):
    """Memory that can be hotplugged after the start."""

    def get(self) -> models.MemoryHotplugStatus:
        """Sizes in MiB, after the start (GET /hotplug/memory)."""
        return self._send(operations.get_memory_hotplug())

    @overload
    def set(self, body: models.MemoryHotplugConfig | Fields, /) -> None: ...
    @overload
    def set(self, /, **fields: Unpack[models.MemoryHotplugConfigFields]) -> None: ...
    def set(
        self, body: models.MemoryHotplugConfig | Fields | None = None, /, **fields: object
    ) -> None:
        """Sets up the device, before the start (PUT /hotplug/memory)."""
        self._send(
            operations.put_memory_hotplug(as_model(models.MemoryHotplugConfig, body, fields))
        )

    @overload
    def update(self, body: models.MemoryHotplugSizeUpdate | Fields, /) -> None: ...
    @overload
    def update(self, /, **fields: Unpack[models.MemoryHotplugSizeUpdateFields]) -> None: ...
    def update(
        self, body: models.MemoryHotplugSizeUpdate | Fields | None = None, /, **fields: object
    ) -> None:
        """Requests a size in MiB, after the start (PATCH /hotplug/memory)."""
        self._send(
            operations.patch_memory_hotplug(as_model(models.MemoryHotplugSizeUpdate, body, fields))
        )
