"""What a process uses of the host, from /proc (proc(5))."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from generated_vmm.process.child import fields_of

USER_TIME, SYSTEM_TIME, RESIDENT_PAGES = 11, 12, 21  # fields of /proc/PID/stat after the name


@dataclass(frozen=True)
class Usage:
    """What a process has used: processor time since its start, and memory in use.

    `at` is `time.monotonic()` in seconds: the processor's share between two usages is the
    difference of their `cpu_seconds` by the difference of their `at`. `memory_bytes` is resident
    memory, of the guest's what it has touched.
    """

    at: float
    cpu_seconds: float
    memory_bytes: int


def usage_of(pid: int) -> Usage | None:
    """What a process uses; None when it has ended."""
    fields = fields_of(pid)
    if fields is None:
        return None
    ticks = int(fields[USER_TIME]) + int(fields[SYSTEM_TIME])
    pages = int(fields[RESIDENT_PAGES])
    return Usage(
        time.monotonic(), ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE")
    )
