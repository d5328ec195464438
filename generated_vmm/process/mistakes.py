"""What is wrong with calls that a monitor accepts, for warnings."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from generated_vmm.operation import Operation
from generated_vmm.process.owner import Owner

File: TypeAlias = tuple[int, int]

_WRITTEN: WeakKeyDictionary[Owner, dict[str, File | None]] = WeakKeyDictionary()
"""The files that guests of this process write to, by monitors, and by the paths of their disks."""


def mistake_in(operation: Operation[object], owner: Owner) -> str:
    """What is wrong with a call to a monitor of this process; empty if nothing is."""
    if operation.path == "/machine-config" and operation.body:
        return _of_memory(json.loads(operation.body))
    if operation.method in ("PUT", "DELETE") and operation.path.startswith("/drives/"):
        return _of_disk(operation, owner)
    return ""


def _of_memory(machine: dict[str, Any]) -> str:
    size = machine.get("mem_size_mib") or 0
    host = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    return f"mem_size_mib={size} is more than the {host} MiB of this host" if size > host else ""


def _of_disk(call: Operation[object], owner: Owner) -> str:
    drive = json.loads(call.body or b"{}")
    path = drive.get("path_on_host")
    is_written = path is not None and not drive.get("is_read_only")
    file = _file_at(owner.place.outside(path)) if is_written else None
    _WRITTEN.setdefault(owner, {})[call.path] = file
    for one in _WRITTEN.keyrefs():  # a list: other threads may add theirs
        other = one()
        if file and other and other is not owner and _writes(other, file):
            its = f"the monitor of {other.place.socket_path}"
            return f"{its} runs with {path} too, and may write to it"
    return ""


def _file_at(path: Path) -> File | None:
    """The file, whatever its name; None if there is none, which the monitor says."""
    with suppress(OSError, ValueError):
        found = os.stat(path)
        return found.st_dev, found.st_ino
    return None


def _writes(owner: Owner, file: File) -> bool:
    return file in _WRITTEN.get(owner, {}).values() and owner.is_running
