"""What a machine needs to start, when it starts by itself, and how its guest is reached."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field as ModelField

from examples.console.changes.change import ANY_TIME, Change, Panel, Parsed, edit
from examples.console.forms import Field, Section, rare
from examples.console.hosted import HostedMonitor
from generated_vmm import BootSource, Drive, MachineConfiguration
from generated_vmm.machines import Definition
from generated_vmm.model import ApiModel

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


AGENT_PORT: Final = 1024


class Policy(ApiModel):
    """Members of a machine's definition that take effect at its next start or end."""

    autostart: bool = ModelField(default=False, description="After a restart of the host.")
    order: int = ModelField(default=0, description="Smaller numbers start first.")
    restart: Literal["never", "on-failure", "always"] = ModelField(
        default="never",
        description="On failure: after any end but exit status 0. Each pause is twice as long.",
    )
    agent: int | None = ModelField(
        default=None,
        ge=1,
        description="Vsock port of the agent in the guest, usually 1024; empty without one. It "
        "runs programs, moves files, and gives copies of the machine their own identity.",
    )


async def _store(monitor: HostedMonitor, parsed: Parsed) -> None:
    policy = Policy.model_validate(parsed[POLICY.key])
    await monitor.edit(monitor.machine.definition.replace(**dict(policy)))


POLICY = Section(
    key="policy",
    title="Start and restart",
    model=Policy,
    fields=(
        Field("autostart", "Start with the host", kind="flag"),
        Field("order", "Order", kind="number"),
        Field("restart", "Restart", "choice", choices=("never", "on-failure", "always")),
        Field("agent", "Agent", kind="number"),
    ),
    current=lambda definition, item: definition,
)
POLICIES = Panel(
    key="policies",
    changes=(
        Change(name="policy", when=ANY_TIME, sections=(POLICY,), of_hosted=_store, unfolded=True),
    ),
)
