"""Folders of machines for tests, with simulated monitors or the real ones of the environment."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from generated_vmm import BootSource, Drive, FullVmConfiguration, MachineConfiguration
from generated_vmm.machines import AsyncMachines, Definition, Jail, Machines
from generated_vmm.transport import UnixChannel

SIMULATED = [sys.executable, "-m", "generated_vmm.testing"]


def machines_in(folder: Path, *, real: bool = False, **options: Any) -> Machines:
    """The machines in a folder."""
    options.setdefault("binary", os.environ["FIRECRACKER_BIN"] if real else SIMULATED)
    jailer = os.environ.get("JAILER_BIN", "jailer")
    return Machines(folder / "machines", jailer=jailer, timeout=60, **options)


def async_machines_in(folder: Path, **options: Any) -> AsyncMachines:
    """The same for tasks, with simulated monitors that end with it."""
    options = {"timeout": 60, "detached": False, **options}
    return AsyncMachines(folder / "machines", binary=SIMULATED, **options)


def definition(folder: Path, *, real: bool = False, jailed: bool = False) -> Definition:
    """A machine with a kernel and a disk of 64 KiB."""
    kernel, disk = folder / "kernel", folder / "disk"
    if not disk.exists():
        kernel.write_bytes(b"\x7fELF" + bytes(60))
        disk.write_bytes(b"content " * 8192)
    configuration = FullVmConfiguration(
        boot_source=BootSource(kernel_image_path=os.environ["KERNEL"] if real else str(kernel)),
        drives=[Drive(drive_id="rootfs", is_root_device=True, path_on_host=str(disk))],
        machine_config=MachineConfiguration(vcpu_count=1, mem_size_mib=32),
    )
    return Definition(configuration=configuration, jail=Jail() if jailed else None)


def at_calls(monkeypatch: pytest.MonkeyPatch, act: Callable[[Any], object], path: str = "") -> None:
    """Does something before each call to a monitor, or once, before the first one of a path."""
    exchange = UnixChannel.exchange

    def exchanged(channel: UnixChannel, operation: Any, seconds: float | None) -> Any:
        if path in ("", operation.path):
            if path:
                monkeypatch.setattr(UnixChannel, "exchange", exchange)
            act(operation)
        return exchange(channel, operation, seconds)

    monkeypatch.setattr(UnixChannel, "exchange", exchanged)


def monitors_of(folder: Path) -> list[str]:
    """The ids of the machines below a folder whose monitors run."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
            places = [os.readlink(path / name) for name in ("cwd", "root")]
        except OSError:  # it has ended meanwhile
            continue
        if b"--id" in words:
            machine = words[words.index(b"--id") + 1].decode()
            is_jailed = (folder / "machines" / "jails" / "firecracker" / machine).exists()
            if is_jailed or any(each.startswith(str(folder)) for each in places):
                found.append(machine)
    return sorted(found)
