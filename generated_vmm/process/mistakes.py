"""What is wrong with calls that a monitor accepts, for warnings."""

from __future__ import annotations

import json
import os
from typing import Any
from weakref import WeakValueDictionary

from generated_vmm.operation import Operation
from generated_vmm.process.owner import Owner

_WRITERS: WeakValueDictionary[tuple[int, int], Owner] = WeakValueDictionary()
"""The last monitor of this process that got each file as a disk that its guest writes to."""


def mistake_in(operation: Operation[object], owner: Owner) -> str:
    """What is wrong with a call to a monitor of this process; empty if nothing is."""
    if operation.path == "/machine-config" and operation.body:
        return _of_memory(json.loads(operation.body))
    if operation.method == "PUT" and operation.path.startswith("/drives/"):
        return _of_disk(json.loads(operation.body or b"{}"), owner)
    return ""


def _of_memory(machine: dict[str, Any]) -> str:
    size = machine.get("mem_size_mib") or 0
    host = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    return f"mem_size_mib={size} is more than the {host} MiB of this host" if size > host else ""


def _of_disk(drive: dict[str, Any], owner: Owner) -> str:
    path = drive.get("path_on_host")
    if path is None or drive.get("is_read_only"):
        return ""
    try:
        found = os.stat(owner.place.outside(path))
    except OSError:  # the monitor says so
        return ""
    file = (found.st_dev, found.st_ino)
    other, _WRITERS[file] = _WRITERS.get(file, owner), owner
    if other is owner or not other.is_running:
        return ""
    return f"the monitor of {other.place.socket_path} runs with {path} too, and may write to it"
