"""What a machine needs to start: a kernel, a root drive, processors and memory."""

from __future__ import annotations

from examples.console.changes.change import BEFORE_START, Change
from examples.console.fields import Field, limits, rare
from examples.console.forms import Section
from examples.console.machine import Machine
from generated_vmm import BootSource, Drive, MachineConfiguration

ROOT_DRIVE = "rootfs"


def _root_drive(machine: Machine) -> Drive | None:
    return next((drive for drive in machine.drives if drive.is_root_device), None)


BOOT_SOURCE = Section(
    key="boot_source",
    title="Boot source",
    model=BootSource,
    fields=(
        Field("kernel_image_path", "Kernel image", places=("kernels",)),
        Field("boot_args", "Kernel command line", initial="console=ttyS0 reboot=k panic=1"),
        Field("initrd_path", "Initial RAM disk", places=("kernels", "disks")),
    ),
    send=lambda vm, fields: vm.boot_source.set(fields),
    current=lambda machine, item: machine.configuration.boot_source if machine.is_set_up else None,
    about={"initrd": "initrd_path", "kernel file": "kernel_image_path"},
)
ROOT = Section(
    key="root_drive",
    title="Root drive",
    model=Drive,
    fields=(
        Field("path_on_host", "Disk image", places=("disks",), reads_if="is_read_only"),
        Field("is_read_only", "Read only", kind="flag"),
        *rare(
            (
                Field("partuuid", "Partition"),
                Field("cache_type", "Cache", "choice", choices=("", "Unsafe", "Writeback")),
                Field("io_engine", "I/O engine", "choice", choices=("", "Sync", "Async")),
                *limits("rate_limiter", "read and written"),
            )
        ),
    ),
    send=lambda vm, fields: vm.drive(ROOT_DRIVE).set(fields),
    current=lambda machine, item: _root_drive(machine),
    fixed={"drive_id": ROOT_DRIVE, "is_root_device": True},
    about={"backing file": "path_on_host", "block config": "path_on_host", "io_uring": "io_engine"},
    optional=True,
)
MACHINE = Section(
    key="machine_config",
    title="Machine",
    model=MachineConfiguration,
    fields=(
        Field("vcpu_count", "Virtual processors", kind="number"),
        Field("mem_size_mib", "Memory in MiB", kind="number"),
        Field("track_dirty_pages", "Track changed memory", kind="flag"),
        *rare(
            (
                Field("smt", "Two processors share a core", kind="flag"),
                Field("huge_pages", "Pages of the host", "choice", choices=("", "None", "2M")),
            )
        ),
    ),
    send=lambda vm, fields: vm.machine_config.set(fields),
    current=lambda machine, item: machine.configuration.machine_config,
    about={"vcpus": "vcpu_count", "memory size": "mem_size_mib"},
)
SETUP = Change(name="setup", when=BEFORE_START, sections=(BOOT_SOURCE, ROOT, MACHINE))
