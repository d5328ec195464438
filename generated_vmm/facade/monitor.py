"""What the monitor does beside the machine: its log, its metrics, the metadata service.

Each body is a model, a mapping, or keyword arguments. Values that the model refuses raise
`pydantic.ValidationError` before anything is sent; calls raise `VmmError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack, overload

from pydantic import JsonValue

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
from generated_vmm.facade.sender import Resource, Sender


class LoggerResource(Resource):
    """The monitor's log."""

    @overload
    def set(self, body: Logger | Fields, /) -> None: ...
    @overload
    def set(self, /, **fields: Unpack[LoggerFields]) -> None: ...
    def set(self, body: Logger | Fields | None = None, /, **fields: object) -> None:
        """Sets the log up, before the start (PUT /logger).

        Fields left out stay as they are, except `level`, which becomes Info.
        """
        self._send(put_logger(as_model(Logger, body, fields)))


class MetricsResource(Resource):
    """The monitor's metrics."""

    @overload
    def set(self, body: Metrics | Fields, /) -> None: ...
    @overload
    def set(self, /, **fields: Unpack[MetricsFields]) -> None: ...
    def set(self, body: Metrics | Fields | None = None, /, **fields: object) -> None:
        """Says where metrics go, once, before the start (PUT /metrics)."""
        self._send(put_metrics(as_model(Metrics, body, fields)))


class MmdsConfigResource(Resource):
    """How the guest reaches the metadata service."""

    @overload
    def set(self, body: MmdsConfig | Fields, /) -> None: ...
    @overload
    def set(self, /, **fields: Unpack[MmdsConfigFields]) -> None: ...
    def set(self, body: MmdsConfig | Fields | None = None, /, **fields: object) -> None:
        """Sets the service up, before the start (PUT /mmds/config)."""
        self._send(put_mmds_config(as_model(MmdsConfig, body, fields)))


class MmdsResource(Resource):
    """The metadata that the guest can read: any JSON object; None in it is null."""

    def __init__(self, sender: Sender) -> None:
        super().__init__(sender)
        self.config = MmdsConfigResource(sender)

    def get(self) -> dict[str, JsonValue]:
        """The metadata, at any time; empty when there is none (GET /mmds)."""
        return self._send(get_mmds()).root

    def set(self, contents: MmdsContentsObject | Mapping[str, JsonValue], /) -> None:
        """Replaces the metadata, at any time (PUT /mmds)."""
        self._send(put_mmds(as_model(MmdsContentsObject, contents, {})))

    def update(self, contents: MmdsContentsObject | Mapping[str, JsonValue], /) -> None:
        """Merges into the metadata, at any time; None removes a key (PATCH /mmds, RFC 7396)."""
        self._send(patch_mmds(as_model(MmdsContentsObject, contents, {})))
