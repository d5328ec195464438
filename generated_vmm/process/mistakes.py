"""What is wrong with calls that a monitor of this process accepts, for warnings."""

from __future__ import annotations

import json
import os
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from generated_vmm.operation import Operation
from generated_vmm.process.owner import Owner
from generated_vmm.transport.calls import levels_to_caller

_WRITTEN: WeakKeyDictionary[Owner, dict[str, Path | None]] = WeakKeyDictionary()
"""The paths of calls that each monitor has accepted, with the files that their disks write to."""

_READ = ("/drives/", "/pmem/", "/network-interfaces/", "/machine-config", "/actions")
_PERSISTS = 0x800  # IFF_PERSIST, linux/if_tun.h
_HOST_MIB = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20


def warn_of_mistakes(call: Operation[object], owner: Owner) -> None:
    """A RuntimeWarning for the line that called the client, if something is wrong."""
    if text := _mistake_in(call, owner):
        warnings.warn(f"{call}: {text}", RuntimeWarning, stacklevel=levels_to_caller())


def note_accepted(call: Operation[object], status: int, owner: Owner) -> None:
    """Remembers a call, if it was accepted; warns of a tap that the monitor has made for it."""
    if call.method == "GET" or status >= 300:
        return
    _WRITTEN.setdefault(owner, {})[call.path] = _written_by(call, owner)
    tap = str(_body_of(call).get("host_dev_name", ""))
    if "netns" not in owner.place.settings and _is_made(tap):
        text = f"there was no tap {tap!r}: the monitor has made one, which leads nowhere"
        warnings.warn(f"{call}: {text}", RuntimeWarning, stacklevel=levels_to_caller())


def _mistake_in(call: Operation[object], owner: Owner) -> str:
    body, known = _body_of(call), _WRITTEN.get(owner, {})
    if file := _written_by(call, owner):
        return _mistake_of_disk(file, owner)
    if (size := body.get("mem_size_mib") or 0) > _HOST_MIB:
        return f"mem_size_mib={size} is more than the {_HOST_MIB} MiB of this host"
    has_metadata = "/mmds" in known or "metadata" in owner.place.settings
    starts = body.get("action_type") == "InstanceStart"
    if starts and has_metadata and "/mmds/config" not in known:
        return "no interface serves the metadata: call mmds.config.set(...) before the start"
    return ""


def _mistake_of_disk(file: Path, owner: Owner) -> str:
    for other in filter(None, [each() for each in _WRITTEN.keyrefs()]):
        if other is not owner and other.is_running and _has(other, file):
            return (
                f"the monitor of {other.place.socket_path} has {file} too, and two guests that "
                "write to one disk destroy it: use a copy, or is_read_only=True"
            )
    with suppress(OSError, ValueError), file.open("rb") as opened:
        if opened.read(4) == b"QFI\xfb":
            return f"{file} is a qcow2 image, but guests get raw disks: qemu-img convert -O raw"
    return ""


def _body_of(call: Operation[object]) -> dict[str, Any]:
    """The fields of a call that may be wrong."""
    return json.loads(call.body) if call.body and call.path.startswith(_READ) else {}


def _written_by(call: Operation[object], owner: Owner) -> Path | None:
    """The file of a disk, if the guest may write to it."""
    body = _body_of(call)
    is_read_only = body.get("is_read_only") or body.get("read_only")
    is_set = call.method == "PUT" and "path_on_host" in body and not is_read_only
    return owner.place.outside(body["path_on_host"]) if is_set else None


def _has(owner: Owner, file: Path) -> bool:
    """Whether a monitor writes to the file, by whatever name."""
    with suppress(OSError, ValueError):  # the monitor says that there is none
        return any(each and each.samefile(file) for each in _WRITTEN[owner].values())
    return False


def _is_made(tap: str) -> bool:
    """Whether a tap of this host ends with the monitor, as one that a monitor has made itself."""
    with suppress(OSError, ValueError):
        return not int(Path("/sys/class/net", tap, "tun_flags").read_text(), 16) & _PERSISTS
    return False
