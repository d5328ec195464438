"""What a machine needs to start: a kernel, a root drive, processors and memory."""

from __future__ import annotations

from examples.console.changes.change import edit
from examples.console.fields import Field, rare
from examples.console.forms import Section
from generated_vmm import BootSource, Drive, MachineConfiguration
from generated_vmm.machines import Definition

ROOT_DRIVE = "rootfs"


def _root_drive(definition: Definition, item: str) -> Drive | None:
    drives = definition.configuration.drives or []
    return next((drive for drive in drives if drive.is_root_device), None)


BOOT_SOURCE = Section(
    key="boot_source",
    title="Boot source",
    model=BootSource,
    member="boot_source",
    fields=(
        Field("kernel_image_path", "Kernel image", places=("kernels",)),
        Field("boot_args", "Kernel command line", initial="console=ttyS0 reboot=k panic=1"),
        Field("initrd_path", "Initial RAM disk", places=("kernels", "disks")),
    ),
)
INPUT_AND_OUTPUT = rare(
    Field("cache_type", "Cache", "choice", choices=("", "Unsafe", "Writeback")),
    Field("io_engine", "I/O engine", "choice", choices=("", "Sync", "Async")),
)
ROOT = Section(
    key="root_drive",
    title="Root drive",
    model=Drive,
    member="drives",
    id_name="drive_id",
    fields=(
        Field("path_on_host", "Disk image", places=("disks",)),
        Field("is_read_only", "Read only", kind="flag"),
        *rare(Field("partuuid", "Partition")),
        *INPUT_AND_OUTPUT,
    ),
    current=_root_drive,
    fixed={"drive_id": ROOT_DRIVE, "is_root_device": True},
    optional=True,
)
MACHINE = Section(
    key="machine_config",
    title="Machine",
    model=MachineConfiguration,
    member="machine_config",
    fields=(
        Field("vcpu_count", "Virtual processors", kind="number", initial="1"),
        Field("mem_size_mib", "Memory in MiB", kind="number", initial="128"),
        *rare(
            Field("smt", "Two processors share a core", kind="flag"),
            Field("huge_pages", "Pages of the host", "choice", choices=("", "None", "2M")),
        ),
    ),
)
SETUP = edit("setup", BOOT_SOURCE, ROOT, MACHINE)
