"""Programs: finding one, and what its process uses."""

from __future__ import annotations

import os
import shlex
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from generated_vmm.process.errors import MonitorStartError

USER_TIME, SYSTEM_TIME, RESIDENT_PAGES = 11, 12, 21  # fields of /proc/PID/stat after the name


@dataclass(frozen=True)
class Usage:
    """What a process has used: processor time since its start, and memory in use.

    `at` is `time.monotonic()` in seconds: the processor's share between two usages is the
    difference of their `cpu_seconds` divided by the difference of their `at`. `memory_bytes` is
    resident memory; of the guest's memory, only pages that it has touched count.
    """

    at: float
    cpu_seconds: float
    memory_bytes: int


def usage_of(pid: int) -> Usage | None:
    """The usage of a process; None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    ticks = int(fields[USER_TIME]) + int(fields[SYSTEM_TIME])
    memory = int(fields[RESIDENT_PAGES]) * os.sysconf("SC_PAGE_SIZE")
    return Usage(time.monotonic(), ticks / os.sysconf("SC_CLK_TCK"), memory)


def find_program(option: str, name: str, env: Mapping[str, str] | None) -> str:
    """The absolute path of a program. Raises `MonitorStartError` if it cannot be run."""
    if Path(name).is_socket():
        raise MonitorStartError(f"{name} is the socket of a monitor: VmmClient(path) controls that")
    found = shutil.which(name, path=None if env is None else env.get("PATH"))
    if found is None:
        reason = "does not exist"
        if " " in name:
            reason += f"; with arguments it is a list: {shlex.split(name)}"
        if os.path.exists(name):
            reason = "is a folder" if Path(name).is_dir() else "is not executable"
        raise MonitorStartError(f"{option} {name!r} {reason}")
    return os.path.abspath(found)
