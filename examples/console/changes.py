"""Everything an admin can do to a machine, in one table: its form, its call, its words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from examples.console.forms import Field, Section
from generated_vmm import (
    AsyncVmmClient,
    BootSource,
    Drive,
    FullVmConfiguration,
    MachineConfiguration,
)

ROOT_DRIVE = "rootfs"


@dataclass(frozen=True, slots=True)
class Change:
    """One button with its form; `verb` completes "Only an admin may …".

    The sections are sent in order, then `act` is done. `working` stands on the button meanwhile.
    """

    name: str
    button: str
    working: str
    done: str
    verb: str
    sections: tuple[Section, ...] = ()
    act: Callable[[AsyncVmmClient], Awaitable[None]] | None = None


def _boot_source(configuration: FullVmConfiguration) -> BootSource | None:
    source = configuration.boot_source
    return source if source and source.kernel_image_path else None


def _root_drive(configuration: FullVmConfiguration) -> Drive | None:
    return next((drive for drive in configuration.drives or [] if drive.is_root_device), None)


BOOT_SOURCE = Section(
    key="boot_source",
    title="Boot source",
    model=BootSource,
    fields=(
        Field("kernel_image_path", "Kernel image"),
        Field("boot_args", "Kernel command line", initial="console=ttyS0 reboot=k panic=1"),
        Field("initrd_path", "Initial RAM disk"),
    ),
    send=lambda vm, fields: vm.boot_source.set(fields),
    current=_boot_source,
    about={"initrd": "initrd_path", "kernel file": "kernel_image_path"},
)
ROOT = Section(
    key="root_drive",
    title="Root drive",
    model=Drive,
    fields=(
        Field("path_on_host", "Disk image"),
        Field("is_read_only", "Read only", kind="flag"),
    ),
    send=lambda vm, fields: vm.drive(ROOT_DRIVE).set(fields),
    current=_root_drive,
    fixed={"drive_id": ROOT_DRIVE, "is_root_device": True},
    about={"backing file": "path_on_host", "block config": "path_on_host"},
)
MACHINE = Section(
    key="machine_config",
    title="Machine",
    model=MachineConfiguration,
    fields=(
        Field("vcpu_count", "Virtual processors", kind="number"),
        Field("mem_size_mib", "Memory in MiB", kind="number"),
        Field("track_dirty_pages", "Track changed memory", kind="flag"),
    ),
    send=lambda vm, fields: vm.machine_config.set(fields),
    current=lambda configuration: configuration.machine_config,
    about={"vcpus": "vcpu_count", "memory size": "mem_size_mib"},
)

_ALL = (
    Change(
        name="setup",
        button="Save setup",
        working="Saving…",
        done="Setup saved.",
        verb="change the setup",
        sections=(BOOT_SOURCE, ROOT, MACHINE),
    ),
    Change(
        name="start",
        button="Start",
        working="Starting…",
        done="The machine is running.",
        verb="start a machine",
        act=lambda vm: vm.action("InstanceStart"),
    ),
    Change(
        name="pause",
        button="Pause",
        working="Pausing…",
        done="The machine is paused.",
        verb="pause a machine",
        act=lambda vm: vm.pause(),
    ),
    Change(
        name="resume",
        button="Resume",
        working="Resuming…",
        done="The machine is running again.",
        verb="resume a machine",
        act=lambda vm: vm.resume(),
    ),
)
CHANGES: Mapping[str, Change] = {change.name: change for change in _ALL}
