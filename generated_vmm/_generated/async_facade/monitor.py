"""What the monitor does beside the machine: its log, its metrics, the metadata service.

Derived from `generated_vmm/facade/monitor.py` by `make codegen`. Do not edit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack, overload

from pydantic import JsonValue

from generated_vmm._generated.async_facade.sender import AsyncResource, AsyncSender
from generated_vmm._generated.models import (
    Logger,
    LoggerFields,
    Metrics,
    MetricsFields,
    MmdsConfig,
    MmdsConfigFields,
    MmdsContentsObject,
)
from generated_vmm._generated.operations import (
    get_mmds,
    patch_mmds,
    put_logger,
    put_metrics,
    put_mmds,
    put_mmds_config,
)
from generated_vmm.binding import Fields, as_model


class AsyncLoggerResource(AsyncResource):
    """The monitor's log."""

    @overload
    async def set(self, body: Logger | Fields, /) -> None: ...

    @overload
    async def set(self, /, **fields: Unpack[LoggerFields]) -> None: ...

    async def set(self, body: Logger | Fields | None = None, /, **fields: object) -> None:
        """Sets the log up, before the start (PUT /logger).

        Fields left out stay as they are, except `level`, which becomes Info.
        """
        await self._send(put_logger(as_model(Logger, body, fields)))


class AsyncMetricsResource(AsyncResource):
    """The monitor's metrics."""

    @overload
    async def set(self, body: Metrics | Fields, /) -> None: ...

    @overload
    async def set(self, /, **fields: Unpack[MetricsFields]) -> None: ...

    async def set(self, body: Metrics | Fields | None = None, /, **fields: object) -> None:
        """Says where metrics go, once, before the start (PUT /metrics)."""
        await self._send(put_metrics(as_model(Metrics, body, fields)))


class AsyncMmdsConfigResource(AsyncResource):
    """How the guest reaches the metadata service."""

    @overload
    async def set(self, body: MmdsConfig | Fields, /) -> None: ...

    @overload
    async def set(self, /, **fields: Unpack[MmdsConfigFields]) -> None: ...

    async def set(self, body: MmdsConfig | Fields | None = None, /, **fields: object) -> None:
        """Sets the service up, before the start (PUT /mmds/config)."""
        await self._send(put_mmds_config(as_model(MmdsConfig, body, fields)))


class AsyncMmdsResource(AsyncResource):
    """The metadata that the guest can read: any JSON object; None in it is null."""

    def __init__(self, sender: AsyncSender) -> None:
        super().__init__(sender)
        self.config = AsyncMmdsConfigResource(sender)

    async def get(self) -> dict[str, JsonValue]:
        """The metadata, at any time; empty when there is none (GET /mmds)."""
        return (await self._send(get_mmds())).root

    async def set(self, contents: MmdsContentsObject | Mapping[str, JsonValue], /) -> None:
        """Replaces the metadata, at any time (PUT /mmds)."""
        await self._send(put_mmds(as_model(MmdsContentsObject, contents, {})))

    async def update(self, contents: MmdsContentsObject | Mapping[str, JsonValue], /) -> None:
        """Merges into the metadata, at any time; None removes a key (PATCH /mmds, RFC 7396)."""
        await self._send(patch_mmds(as_model(MmdsContentsObject, contents, {})))
