"""What is wrong with calls that a monitor of this process accepts, for warnings."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from generated_vmm._generated import models
from generated_vmm.facade.values import fields_in, mistake_in_body
from generated_vmm.misuse import warn_caller
from generated_vmm.operation import Operation
from generated_vmm.process.copying import regular
from generated_vmm.process.owner import Owner

_ACCEPTED: WeakKeyDictionary[Owner, dict[str, dict[str, Any]]] = WeakKeyDictionary()
"""The paths of calls that each monitor has accepted, with the fields of what may be wrong."""

_TURN = threading.Lock()
_DISKS = ("/drives/", "/pmem/")
_READ = (*_DISKS, "/network-interfaces/", "/boot-source", "/actions")
_FORMATS = {b"QFI\xfb": "qcow2", b"KDMV": "VMDK", b"vhdxfile": "VHDX"}
_PACKERS = {b"\x1f\x8b\x08": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ\0": "xz"}
_PERSISTS = 0x800  # IFF_PERSIST, linux/if_tun.h
# Another thread may look at a disk while this one forks.
os.register_at_fork(after_in_child=lambda: globals().update(_TURN=threading.Lock()))


def tell(call: Operation[object], mistake: str) -> None:
    """A RuntimeWarning for the line that called the client, if something is wrong."""
    if mistake:
        warn_caller(f"{call}: {mistake}")


def note_accepted(call: Operation[object], status: int, owner: Owner) -> None:
    """Remembers a call, if it was accepted; warns of a tap that the monitor has made for it."""
    if call.method == "GET" or status >= 300:
        return
    body = _ACCEPTED.setdefault(owner, {})[call.path] = _body_of(call, owner)
    tap = str(body.get("host_dev_name", ""))
    if "netns" not in owner.place.settings and _is_made(tap):
        tell(call, f"there was no tap {tap!r}: the monitor has made one, which leads nowhere")


def note_loaded(configuration: bytes, owner: Owner) -> list[dict[str, Any]]:
    """Remembers the disks of a snapshot that a monitor has loaded, and returns those of files."""
    try:
        shown = models.FullVmConfiguration.from_answer(configuration)
    except ValueError:
        return []
    drives = {f"/drives/{each.drive_id}": each.model_dump() for each in shown.drives or []}
    memory = {f"/pmem/{each.id}": each.model_dump() for each in shown.pmem or []}
    _ACCEPTED.setdefault(owner, {}).update(drives | memory)
    return [each for each in (drives | memory).values() if each.get("path_on_host")]


def disks_in(call: Operation[object], owner: Owner) -> list[dict[str, Any]]:
    """The disk that a call gives its monitor, if it does."""
    body = _body_of(call, owner) if call.path.startswith(_DISKS) else {}
    return [body] if body.get("path_on_host") else []


def mistake_in(call: Operation[object], owner: Owner) -> str:
    """What is wrong with a call, besides the files of disks; empty if nothing is."""
    body, known = _body_of(call, owner), _ACCEPTED.get(owner, {})
    if mistake := mistake_in_body(call):
        return mistake
    has_metadata = "/mmds" in known or "metadata" in owner.place.settings
    starts = body.get("action_type") == "InstanceStart"
    if starts and _lacks_root(known):
        return "no disk is the root device, and boot_args has no root=: Linux finds no file system"
    if starts and has_metadata and "/mmds/config" not in known:
        return "no interface serves the metadata: call mmds.config.set(...) before the start"
    return ""


def _lacks_root(known: dict[str, dict[str, Any]]) -> bool:
    """Whether a kernel gets disks, but none of them, no RAM disk and no argument is its root."""
    source = known.get("/boot-source")
    disks = [body for path, body in list(known.items()) if path.startswith(_DISKS)]
    if source is None or source.get("initrd_path") or "root=" in (source.get("boot_args") or ""):
        return False
    return any(disks) and not any(map(is_root, disks))


def is_root(disk: dict[str, Any]) -> bool:
    """Whether a drive or persistent memory is the root device."""
    return bool(disk.get("is_root_device") or disk.get("root_device"))


def mistake_of_format(file: Path, *, is_root: bool) -> str:
    """What is wrong if the first bytes of a disk are no raw disk; a guest may unpack other disks.

    Empty if nothing is, and if the file cannot be read.
    """
    with suppress(OSError, ValueError), regular(file) as opened:
        first = os.pread(opened.number, 8, 0)
        for begin, name in (_FORMATS | _PACKERS if is_root else _FORMATS).items():
            if first.startswith(begin):
                remedy = f"{name} -d" if begin in _PACKERS else "qemu-img convert -O raw"
                return f"{file} has the format {name}, but guests get raw disks: {remedy}"
    return ""


def mistake_of_disks(disks: Iterable[dict[str, Any]], owner: Owner, seconds: float) -> str:
    """What is wrong with the files of disks; a file system of a network may keep it waiting.

    Then it lets no other thread look, which returns after `seconds`.
    """
    if not _TURN.acquire(timeout=seconds):
        return ""
    try:
        return next(filter(None, (_mistake_of_disk(each, owner) for each in disks)), "")
    finally:
        _TURN.release()


def _mistake_of_disk(disk: dict[str, Any], owner: Owner) -> str:
    file = owner.place.outside(disk["path_on_host"])
    others = [each() for each in _ACCEPTED.keyrefs()] if _written_by(disk, owner) else []
    for other in filter(None, others):
        if other is not owner and other.is_running and _has(other, file):
            return (
                f"the monitor of {other.place.socket_path} has {file} too, and two guests that "
                "write to one disk destroy it: use a copy, or is_read_only=True"
            )
    return mistake_of_format(file, is_root=is_root(disk))


def _body_of(call: Operation[object], owner: Owner) -> dict[str, Any]:
    """The fields of a call that may be wrong, with those of a disk that it leaves as they are."""
    body = fields_in(call.body) if call.body and call.path.startswith(_READ) else {}
    if call.method != "PATCH" or not call.path.startswith(_DISKS):
        return body
    known = _ACCEPTED.get(owner, {}).get(call.path)
    return known | body if known else {}


def _written_by(disk: dict[str, Any], owner: Owner) -> Path | None:
    """The file of a disk, if the guest may write to it."""
    path, is_read_only = disk.get("path_on_host"), disk.get("is_read_only") or disk.get("read_only")
    return owner.place.outside(path) if path and not is_read_only else None


def _has(owner: Owner, file: Path) -> bool:
    """Whether a monitor writes to the file, by whatever name."""
    with suppress(OSError, ValueError):  # the monitor says that there is none
        # A copy: another thread may give it a disk meanwhile.
        written = (_written_by(disk, owner) for disk in list(_ACCEPTED[owner].values()))
        return any(each and each.samefile(file) for each in written)
    return False


def _is_made(tap: str) -> bool:
    """Whether a tap of this host ends with the monitor, as one that a monitor has made itself."""
    with suppress(OSError, ValueError):
        return not int(Path("/sys/class/net", tap, "tun_flags").read_text(), 16) & _PERSISTS
    return False
