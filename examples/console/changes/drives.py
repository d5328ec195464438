"""Drives: files of the host, or of a vhost-user backend."""

from __future__ import annotations

from examples.console.changes.change import AFTER_START, Change, Item, Panel
from examples.console.changes.devices import Kind, device_changes, tags_of
from examples.console.fields import Field, limits, rare
from examples.console.forms import Section
from examples.console.machine import Machine
from generated_vmm import Drive, FullVmConfiguration, PartialDrive


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
        Change(name="medium", when=AFTER_START, sections=(MEDIUM,), items=KIND.ids),
    ),
)
