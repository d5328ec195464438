"""Ages and durations in short words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_UNITS: Final = (("day", 86_400), ("hour", 3600), ("minute", 60))


def ago(moment: datetime, now: datetime | None = None) -> str:
    """`just now`, `1 minute ago`, `3 hours ago`; a future moment is just now."""
    seconds = _seconds_since(moment, now)
    for name, length in _UNITS:
        if seconds >= length:
            count = seconds // length
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "just now"


def lasting(moment: datetime, now: datetime | None = None) -> str:
    """`12 s`, `4 min`, `3 h 12 min`, `5 d 2 h`: the time since a moment in at most two units."""
    seconds = _seconds_since(moment, now)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min" if minutes else f"{seconds} s"


def _seconds_since(moment: datetime, now: datetime | None) -> int:
    return max(int(((now or datetime.now(UTC)) - moment).total_seconds()), 0)
