"""Drives: files of the host, or of a vhost-user backend."""

from __future__ import annotations

from examples.console.changes.change import AFTER_START, Change, Item, Panel
from examples.console.changes.devices import Kind, by_id, device_changes, ids_of, tags_of
from examples.console.fields import Field, limits, rare
from examples.console.forms import Section
from examples.console.machine import Machine
from generated_vmm import Drive, PartialDrive


def _drives(machine: Machine) -> list[Drive]:
    return machine.drives


def _items(machine: Machine) -> list[Item]:
    return [Item(one.drive_id, tags_of(one), _where(one)) for one in machine.drives]


def _where(drive: Drive) -> str:
    return drive.path_on_host or drive.socket or ""


DRIVE = Section(
    key="drive",
    title="Drive",
    model=Drive,
    fields=(
        Field("drive_id", "Name"),
        Field("path_on_host", "Disk image", places=("disks",)),
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
    current=by_id(_drives, "drive_id"),
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
    current=by_id(_drives, "drive_id"),
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
    current=by_id(_drives, "drive_id"),
    about={"backing file": "path_on_host", "different backend": "path_on_host"},
)
KIND = Kind(
    name="drive",
    id_name="drive_id",
    section=DRIVE,
    limits=LIMITS,
    ids=ids_of(_drives, "drive_id"),
    removable=ids_of(_drives, "drive_id", "is_root_device"),
    delete=lambda vm, drive_id: vm.drive(drive_id).delete(),
)
DRIVES = Panel(
    key="drives",
    items=_items,
    changes=(
        *device_changes(KIND),
        Change(name="medium", when=AFTER_START, sections=(MEDIUM,), items=KIND.ids),
    ),
)
