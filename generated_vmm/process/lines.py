"""The monitor's log and metrics, line by line.

Each counter of the metrics is the increase since the previous line, even if that line was lost: the
monitor writes to a full fifo in part or not at all, and does not retry. Measured on 1.16.1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

# 2026-11-21T14:40:37.243521075 [id:thread] text, or [id:thread:LEVEL:file:line] text
WRITTEN = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?)\d* "
    r"\[(?P<instance_id>[A-Za-z0-9-]*):(?P<thread>[^:\]]*)"
    r"(?::(?P<level>ERROR|WARN|INFO|DEBUG|TRACE))?(?::(?P<origin>[^\]]+))?\] (?P<message>.*)"
)


@dataclass(frozen=True)
class LogLine:
    """A line of the log; `text` is the whole line.

    `level` and `origin` (file and line of the monitor's source) are set if the monitor is
    configured to show them. A line that its logger did not write, such as a panic, has only a
    `message`. `at` is in UTC if the host's clock is: the monitor writes local time without an
    offset.
    """

    text: str
    message: str
    at: datetime | None = None
    instance_id: str | None = None
    thread: str | None = None
    level: str | None = None
    origin: str | None = None


def parse_log_line(text: str) -> LogLine:
    """The parsed line of a log."""
    with suppress(ValueError):  # a time that there never was
        if found := WRITTEN.fullmatch(text):
            parts: dict[str, Any] = found.groupdict() | {"at": datetime.fromisoformat(found["at"])}
            return LogLine(text, **parts)
    return LogLine(text, text)


@dataclass(frozen=True)
class Metrics:
    """A line of the metrics: `groups` as the monitor names them, `at` in UTC.

    Counters are increases in the last `seconds`, which is None for the first line and for one
    after a lost line. Values of the kind "store", such as `latencies_us`, are no increases.
    """

    at: datetime
    groups: Mapping[str, Mapping[str, Any]] = field(repr=False)
    seconds: float | None = None


class MetricsReader:
    """Parses lines into metrics, with the time that each counted."""

    def __init__(self) -> None:
        self._before: datetime | None = None

    def read(self, line: str) -> Metrics | None:
        """The metrics in a line; None for one that the monitor wrote only in part."""
        before, self._before = self._before, None
        try:
            value = json.loads(line)
            at = datetime.fromtimestamp(value.pop("utc_timestamp_ms") / 1000, UTC)
        except Exception:  # whatever the monitor wrote in part
            return None
        self._before = at
        groups = {name: group for name, group in value.items() if isinstance(group, dict)}
        passed = (at - before).total_seconds() if before else 0.0
        return Metrics(at, groups, passed if passed > 0 else None)
