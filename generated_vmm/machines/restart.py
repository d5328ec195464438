"""What follows the end of a monitor: a restart after a pause, or nothing."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from generated_vmm.machines.records import End, MachineRecord, now

FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 300.0
LONG_RUN_SECONDS: Final = 60.0
"""After a run of this length the pauses begin anew."""


def after_end(record: MachineRecord, end: End) -> dict[str, object]:
    """The members of a machine's record after its monitor has ended by itself."""
    began, policy = record.started_at, record.definition.restart
    ran = (end.at - began).total_seconds() if began is not None else 0.0
    failures = 1 if ran >= LONG_RUN_SECONDS else record.failures + 1
    again = policy == "always" or (policy == "on-failure" and end.is_failure)
    again = again and record.should_be in ("Running", "Paused")
    return {
        "started_at": None,
        "end": end,
        "should_be": "Running" if again else "Ended",
        "failures": failures,
        "retry_at": next_try(failures, end.at) if again else None,
    }


def next_try(failures: int, at: datetime) -> datetime:
    """When a machine is restarted: after a second, and after twice the time at each failure."""
    pause = min(FIRST_PAUSE_SECONDS * 2 ** min(failures - 1, 20), LONGEST_PAUSE_SECONDS)
    return at + timedelta(seconds=pause)


def is_due(record: MachineRecord) -> bool:
    """Whether a machine that does not run should be started now.

    A moment after the longest pause is one of a clock that was set back since.
    """
    if record.should_be != "Running" or record.started_at is not None:
        return False
    pause = record.retry_at - now() if record.retry_at is not None else timedelta(0)
    return not timedelta(0) < pause <= timedelta(seconds=LONGEST_PAUSE_SECONDS)
