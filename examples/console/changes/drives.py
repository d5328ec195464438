"""Drives: files of the host, or of a vhost-user backend."""

from __future__ import annotations

from pydantic import Field as ModelField

from examples.console.changes.change import AFTER_START, ANY_TIME, Change, Item, Panel, Parsed
from examples.console.changes.devices import Kind, device_changes, tags_of
from examples.console.changes.power import hosted
from examples.console.events import person
from examples.console.fields import Field, limits, rare
from examples.console.forms import Section
from examples.console.hosted import HostedMonitor
from examples.console.machine import Machine
from generated_vmm import Drive, FullVmConfiguration, PartialDrive
from generated_vmm.model import ApiModel


def _item(drive: Drive) -> Item:
    tags = tags_of(root=drive.is_root_device, reads=drive.is_read_only, limits=drive.rate_limiter)
    return Item(drive.drive_id, tags, drive.path_on_host or drive.socket or "")


def _drive(machine: Machine, drive_id: str) -> Drive | None:
    return next((one for one in machine.drives if one.drive_id == drive_id), None)


def _drop(made: FullVmConfiguration, drive_id: str) -> None:
    made.drives = [one for one in made.drives or [] if one.drive_id != drive_id]


DRIVE = Section(
    key="drive",
    title="Drive",
    model=Drive,
    fields=(
        Field("drive_id", "Name"),
        Field("path_on_host", "Disk image", places=("disks",), reads_if="is_read_only"),
        Field("is_read_only", "Read only", kind="flag"),
        *rare(
            (
                Field("cache_type", "Cache", "choice", choices=("", "Unsafe", "Writeback")),
                Field("io_engine", "I/O engine", "choice", choices=("", "Sync", "Async")),
                Field("socket", "Socket of a vhost-user backend", places=("machine",)),
                *limits("rate_limiter", "read and written"),
            )
        ),
    ),
    send=lambda vm, fields: vm.drive(str(fields["drive_id"])).set(fields),
    current=_drive,
    fixed={"is_root_device": False},
    about={
        "device id in use": "drive_id",
        "drive_id": "drive_id",
        "backing file": "path_on_host",
        "block config": "path_on_host",
        "io_uring": "io_engine",
        "vhost user": "socket",
    },
)
LIMITS = Section(
    key="drive_limits",
    title="Limits",
    model=PartialDrive,
    fields=(Field("drive_id", "Name", kind="item"), *limits("rate_limiter", "read and written")),
    send=lambda vm, fields: vm.drive(str(fields["drive_id"])).update(fields),
    current=_drive,
)
MEDIUM = Section(
    key="medium",
    title="Disk image",
    model=PartialDrive,
    fields=(
        Field("drive_id", "Name", kind="item"),
        Field("path_on_host", "New disk image", places=("disks",)),
    ),
    send=lambda vm, fields: vm.drive(str(fields["drive_id"])).update(fields),
    current=_drive,
    about={"backing file": "path_on_host", "different backend": "path_on_host"},
)


class Growth(ApiModel):
    """A larger size of one of the machine's own disks."""

    drive_id: str
    size_mib: int = ModelField(description="In MiB; only larger than it is.", ge=1)


async def _grow(monitor: HostedMonitor, parsed: Parsed) -> None:
    wish = Growth.model_validate(parsed[GROWTH.key])
    await monitor.machine.grow(wish.drive_id, wish.size_mib << 20, by=person().name)


def _own(machine: Machine) -> list[str]:
    return [one.drive_id for one in machine.drives if (one.path_on_host or "/")[:1] != "/"]


GROWTH = Section(
    key="growth",
    title="Size",
    model=Growth,
    fields=(Field("drive_id", "Name", kind="item"), Field("size_mib", "New size", "number")),
    about={"": "size_mib"},
)
KIND = Kind(
    name="drive",
    id_name="drive_id",
    section=DRIVE,
    limits=LIMITS,
    ids=lambda machine: [one.drive_id for one in machine.drives],
    removable=lambda machine: [one.drive_id for one in machine.drives if not one.is_root_device],
    delete=lambda vm, drive_id: vm.drive(drive_id).delete(),
    drop=_drop,
)
DRIVES = Panel(
    key="drives",
    items=lambda machine: [_item(one) for one in machine.drives],
    changes=(
        *device_changes(KIND),
        Change(
            name="grow",
            when=ANY_TIME,
            sections=(GROWTH,),
            items=_own,
            act=hosted(_grow),
            hosted=True,
        ),
        Change(name="medium", when=AFTER_START, sections=(MEDIUM,), items=KIND.ids),
    ),
)
