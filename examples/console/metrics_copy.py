"""The metrics that the console reads, written to a file of somebody else as well."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress

from pydantic import Field

from generated_vmm.model import ApiModel
from generated_vmm.process import Metrics

APPENDED = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC


class MetricsCopy(ApiModel):
    """Where a copy of the metrics goes."""

    path: str | None = Field(
        default=None, description="Host path of a file or named pipe; if empty, there is no copy."
    )


def require_writable(path: str) -> None:
    """ValueError for a file that nothing can be written to."""
    try:
        os.close(os.open(path, APPENDED, 0o600))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ValueError(f"The metrics cannot be written there: {reason}.") from error


def append(path: str, lines: Sequence[Metrics]) -> None:
    """Write the lines as the monitor does, as JSON; what cannot be written is left out."""
    content = "".join(f"{_line(metrics)}\n" for metrics in lines)
    with suppress(OSError, ValueError):  # a pipe that is full or not read, a disk without space
        descriptor = os.open(path, APPENDED, 0o600)
        try:
            os.write(descriptor, content.encode())
        finally:
            os.close(descriptor)


def _line(metrics: Metrics) -> str:
    return json.dumps({"utc_timestamp_ms": round(metrics.at.timestamp() * 1000), **metrics.groups})
