"""The lines of the monitor's log."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

# 2026-11-21T14:40:37.243521075 [id:thread] text, or [id:thread:LEVEL:file:line] text
WRITTEN = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?)\d* "
    r"\[(?P<id>[A-Za-z0-9-]*):(?P<thread>[^:\]]*)"
    r"(?::(?P<level>ERROR|WARN|INFO|DEBUG|TRACE))?(?::(?P<origin>[^\]]+))?\] (?P<message>.*)"
)


@dataclass(frozen=True)
class LogLine:
    """A line of the log; `text` is all of it.

    `level` and `origin` (file and line of the monitor's source) are there when the monitor was
    told to show them. What is not written by its logger, as a panic, has a `message` alone.
    `at` is in UTC on the assumption that the host's clock is: the monitor writes local time
    without an offset.
    """

    text: str
    message: str
    at: datetime | None = None
    instance_id: str | None = None
    thread: str | None = None
    level: str | None = None
    origin: str | None = None


def parse_log_line(text: str) -> LogLine:
    """What a line of the log says."""
    found = WRITTEN.fullmatch(text)
    if found is None:
        return LogLine(text, text)
    try:
        at = datetime.fromisoformat(found["at"])
    except ValueError:
        return LogLine(text, text)
    return LogLine(
        text, found["message"], at, found["id"], found["thread"], found["level"], found["origin"]
    )
