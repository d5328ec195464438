"""What is wrong with the disks of a monitor, for warnings."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from os.path import samestat
from pathlib import Path
from signal import SIGURG
from typing import Any

from generated_vmm._generated import models
from generated_vmm.facade.values import fields_in, is_read_only, is_root
from generated_vmm.misuse import warn_caller
from generated_vmm.operation import Operation
from generated_vmm.process.copying import regular
from generated_vmm.process.owner import Owner

DESTROYS = (
    "has {} too, and two guests that write to one disk destroy it: use a copy, or is_read_only=True"
)
_DISKS = ("/drives/", "/pmem/")
_FORMATS = {b"QFI\xfb": "qcow2", b"KDMV": "VMDK", b"vhdxfile": "VHDX"}
_PACKERS = {b"\x1f\x8b\x08": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ\0": "xz"}


def tell(call: Operation[object], mistake: str) -> None:
    """A RuntimeWarning for the line that called the client, if something is wrong."""
    if mistake:
        warn_caller(f"{call}: {mistake}")


def disks_in(call: Operation[object]) -> list[dict[str, Any]]:
    """The disk that a call gives its monitor, if it does; a PATCH leaves open who writes to it."""
    body = fields_in(call.body) if call.body and call.path.startswith(_DISKS) else {}
    return [{"is_read_only": call.method == "PATCH"} | body] if body.get("path_on_host") else []


def disks_of(configuration: bytes) -> list[dict[str, Any]]:
    """The disks that are files in what a monitor says of its machine."""
    try:
        shown = models.FullVmConfiguration.from_answer(configuration)
    except ValueError:
        return []
    disks = [each.model_dump() for each in (*(shown.drives or []), *(shown.pmem or []))]
    return [each for each in disks if each.get("path_on_host")]


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


def mistake_of_disks(disks: Iterable[dict[str, Any]], owner: Owner) -> str:
    """What is wrong with the files of disks; a file system of a network may keep it waiting."""
    return next(filter(None, (_mistake_of_disk(each, owner) for each in disks)), "")


def _mistake_of_disk(disk: dict[str, Any], owner: Owner) -> str:
    file = owner.place.outside(disk["path_on_host"])
    if not is_read_only(disk) and (writer := _writer_of(file, (os.getpid(), owner.pid))):
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
