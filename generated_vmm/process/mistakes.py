"""What is wrong with the disks that monitors of this process accept, for warnings."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from os.path import samestat
from pathlib import Path
from signal import SIGURG
from typing import Any
from weakref import WeakKeyDictionary

from generated_vmm._generated import models
from generated_vmm.facade.values import fields_in, is_read_only, is_root
from generated_vmm.misuse import warn_caller
from generated_vmm.operation import Operation
from generated_vmm.process.copying import regular
from generated_vmm.process.owner import Owner

_ACCEPTED: WeakKeyDictionary[Owner, dict[str, dict[str, Any]]] = WeakKeyDictionary()
"""The disks that each monitor has accepted, by the paths of their calls."""

DESTROYS = (
    "has {} too, and two guests that write to one disk destroy it: use a copy, or is_read_only=True"
)
_TURN = threading.Lock()
_DISKS = ("/drives/", "/pmem/")
_FORMATS = {b"QFI\xfb": "qcow2", b"KDMV": "VMDK", b"vhdxfile": "VHDX"}
_PACKERS = {b"\x1f\x8b\x08": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ\0": "xz"}
# Another thread may look at a disk while this one forks.
os.register_at_fork(after_in_child=lambda: globals().update(_TURN=threading.Lock()))


def tell(call: Operation[object], mistake: str) -> None:
    """A RuntimeWarning for the line that called the client, if something is wrong."""
    if mistake:
        warn_caller(f"{call}: {mistake}")


def note_accepted(call: Operation[object], status: int, owner: Owner) -> None:
    """Remembers the disk of a call, if it was accepted."""
    if call.path.startswith(_DISKS) and call.method != "GET" and status < 300:
        _ACCEPTED.setdefault(owner, {})[call.path] = _body_of(call, owner)


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
    body = _body_of(call, owner)
    return [body] if body.get("path_on_host") else []


def mistake_of_format(file: Path, *, is_root: bool) -> str:
    """What is wrong if the first bytes of a disk are no raw disk; a guest may unpack other disks.

    Empty if nothing is, and if the file cannot be read.
    """
    with suppress(OSError, ValueError), regular(file) as opened:
        first = os.pread(opened.number, 8, 0)
        if is_root and not first:
            return f"{file} is empty: mkfs.ext4 makes a file system"
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
    is_written = _written_by(disk, owner) is not None
    others = [each() for each in _ACCEPTED.keyrefs()] if is_written else []
    for other in filter(None, others):
        if other is not owner and other.is_running and _has(other, file):
            return f"the monitor of {other.place.socket_path} {DESTROYS.format(file)}"
    if is_written and (writer := _writer_of(file, (os.getpid(), owner.pid))):
        return f"{writer} {DESTROYS.format(file)}"
    return mistake_of_format(file, is_root=is_root(disk))


def _writer_of(file: Path, own: tuple[int, int]) -> str:
    """Another process that has a file open for writing; empty if there seems to be none.

    The kernel refuses a lease of such a file, see fcntl(2). A lease that it grants ends at once.
    """
    with suppress(OSError, ValueError), regular(file) as opened:
        try:
            fcntl.fcntl(opened.number, fcntl.F_SETSIG, SIGURG)  # which nobody hears
            fcntl.fcntl(opened.number, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except BlockingIOError:
            return next(_writers(os.fstat(opened.number), own), "")
    return ""


def _writers(file: os.stat_result, own: tuple[int, int]) -> Iterator[str]:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or belongs to somebody else
            for each in os.listdir(process / "fd") if int(process.name) not in own else ():
                if samestat(os.stat(process / "fd" / each), file):
                    flags = (process / "fdinfo" / each).read_text().split()[3]
                    if int(flags, 8) & os.O_ACCMODE:
                        yield f"process {process.name}"


def _body_of(call: Operation[object], owner: Owner) -> dict[str, Any]:
    """The fields of a call for a disk, with those that it leaves as they are."""
    body = fields_in(call.body) if call.body and call.path.startswith(_DISKS) else {}
    if call.method != "PATCH":
        return body
    known = _ACCEPTED.get(owner, {}).get(call.path)
    return known | body if known else {}


def _written_by(disk: dict[str, Any], owner: Owner) -> Path | None:
    """The file of a disk, if the guest may write to it."""
    path = disk.get("path_on_host")
    return owner.place.outside(path) if path and not is_read_only(disk) else None


def _has(owner: Owner, file: Path) -> bool:
    """Whether a monitor writes to the file, by whatever name."""
    with suppress(OSError, ValueError):  # the monitor says that there is none
        # A copy: another thread may give it a disk meanwhile.
        written = (_written_by(disk, owner) for disk in list(_ACCEPTED[owner].values()))
        return any(each and each.samefile(file) for each in written)
    return False
