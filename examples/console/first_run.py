"""The page of a console without machines: the requirements for the first one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from examples.console.host import Host
from examples.console.words import NEEDS

KVM: Final = Path("/dev/kvm")


@dataclass(frozen=True, slots=True)
class Need:
    """A requirement of machines on this host: whether it is met, and what to do if not."""

    what: str
    met: bool
    told: str


def needs_of(host: Host, kvm: Path = KVM) -> Sequence[Need]:
    """The requirements of a real machine; a simulated one, whose program is a module, has none."""
    binary, suggestions, jailer = host.launch.binary, host.suggestions, host.launch.jailer
    if host.launch.is_simulated:
        return []
    found = shutil.which(binary[0])
    usable = os.access(kvm, os.R_OK | os.W_OK)
    return [
        Need(
            "Firecracker",
            found is not None,
            found or f"{binary[0]} is no program. Set FIRECRACKER_BIN.",
        ),
        Need(
            "KVM",
            usable,
            str(kvm) if usable else f"This user may not use {kvm}, or it is not there.",
        ),
        Need("Jailer", jailer is not None, NEEDS["jail" if jailer else "no jail"]),
        _file("Kernel", "KERNEL", suggestions.get("boot_source.kernel_image_path", "")),
        _file("Disk", "ROOTFS", suggestions.get("root_drive.path_on_host", "")),
    ]


def _file(what: str, variable: str, path: str) -> Need:
    if not path:
        return Need(what, False, f"Set {variable}, or type its path into the form.")
    if not os.access(path, os.R_OK):
        return Need(what, False, f"{path} cannot be read. Set {variable} to another file.")
    return Need(what, True, path)
