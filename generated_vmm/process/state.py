"""What is written down of a detached monitor, so that another process can take it up."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from generated_vmm.process.child import Child, start_time_of
from generated_vmm.process.errors import MonitorError

STATE = "monitor.json"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class State:
    """A process, by what no other process has, and how its monitor was started."""

    pid: int
    start_time: int | None
    boot_id: str
    how: dict[str, Any]

    def child(self) -> Child:
        """The process. ProcessLookupError when it has ended."""
        if self.boot_id != boot_id():
            raise ProcessLookupError(f"process {self.pid} was before the host's last start")
        return Child(self.pid, self.start_time)


def write_state(directory: Path, pid: int, how: dict[str, Any]) -> None:
    """Writes a monitor down, whole or not at all."""
    written = {"pid": pid, "start_time": start_time_of(pid), "boot_id": boot_id(), "how": how}
    path = directory / STATE
    new = path.with_suffix(".new")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(written, file)
    new.replace(path)


def read_state(directory: str | os.PathLike[str]) -> State:
    """What was written down in a folder. `MonitorError` when there is nothing, or nonsense."""
    path = Path(directory) / STATE
    try:
        written = json.loads(path.read_text("utf-8"))
        if not isinstance(written["pid"], int) or not isinstance(written["how"], dict):
            raise TypeError("pid is not a number or how is not an object")
        return State(**written)
    except FileNotFoundError:
        raise MonitorError(f"{directory} is not the folder of a detached monitor") from None
    except (OSError, LookupError, TypeError, ValueError) as error:
        raise MonitorError(f"{path} cannot be read: {error}") from error


def boot_id() -> str:
    """What tells this start of the host from others."""
    return BOOT_ID.read_text().strip()


def is_running(directory: Path) -> bool:
    """Whether a detached monitor that was written down in a folder still runs."""
    if not (directory / STATE).exists():
        return False
    try:
        read_state(directory).child().close()
    except ProcessLookupError:
        return False
    return True
