"""The monitor's log and metrics, and the metadata service.

Each body is a model, a mapping, or keyword arguments. Invalid values raise
`pydantic.ValidationError` before anything is sent; calls raise `VmmError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack, overload

from pydantic import JsonValue

from generated_vmm._generated import models, operations
from generated_vmm.binding import Fields, as_model
from generated_vmm.facade._async.sender import AsyncResource, AsyncSender
from generated_vmm.input_types import Json


class AsyncLoggerResource(AsyncResource):
    """The monitor's log."""

    @overload
    async def set(self, body: models.Logger | Fields, /) -> None: ...
    @overload
    async def set(self, /, **fields: Unpack[models.LoggerFields]) -> None: ...
    async def set(self, body: models.Logger | Fields | None = None, /, **fields: object) -> None:
        """Sets up the log, before the start (PUT /logger).

        Omitted fields stay as they are, except `level`, which becomes Info.
        """
        await self._send(operations.put_logger(as_model(models.Logger, body, fields)))


class AsyncMetricsResource(AsyncResource):
    """The monitor's metrics."""

    @overload
    async def set(self, body: models.Metrics | Fields, /) -> None: ...
    @overload
    async def set(self, /, **fields: Unpack[models.MetricsFields]) -> None: ...
    async def set(self, body: models.Metrics | Fields | None = None, /, **fields: object) -> None:
        """Sets the file for metrics, once, before the start (PUT /metrics)."""
        await self._send(operations.put_metrics(as_model(models.Metrics, body, fields)))


class AsyncMmdsConfigResource(AsyncResource):
    """The guest's access to the metadata service."""

    @overload
    async def set(self, body: models.MmdsConfig | Fields, /) -> None: ...
    @overload
    async def set(self, /, **fields: Unpack[models.MmdsConfigFields]) -> None: ...
    async def set(
        self, body: models.MmdsConfig | Fields | None = None, /, **fields: object
    ) -> None:
        """Sets up the service, before the start (PUT /mmds/config)."""
        await self._send(operations.put_mmds_config(as_model(models.MmdsConfig, body, fields)))


class AsyncMmdsResource(AsyncResource):
    """The metadata that the guest can read: any JSON object; None in it is null."""

    def __init__(self, sender: AsyncSender) -> None:
        super().__init__(sender)
        self.config = AsyncMmdsConfigResource(sender)

    async def get(self) -> dict[str, JsonValue]:
        """The metadata, at any time; empty if there is none (GET /mmds)."""
        return (await self._send(operations.get_mmds())).root

    async def set(self, contents: models.MmdsContentsObject | Mapping[str, Json], /) -> None:
        """Replaces the metadata, at any time (PUT /mmds)."""
        await self._send(operations.put_mmds(as_model(models.MmdsContentsObject, contents, {})))

    async def update(self, contents: models.MmdsContentsObject | Mapping[str, Json], /) -> None:
        """Merges into the metadata, at any time; None removes a key (PATCH /mmds, RFC 7396)."""
        await self._send(operations.patch_mmds(as_model(models.MmdsContentsObject, contents, {})))
