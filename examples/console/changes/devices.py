"""Drives and network interfaces."""

from __future__ import annotations

from examples.console.changes.change import AFTER_START, BEFORE_START, Change
from examples.console.forms import Field, Section
from generated_vmm import Drive, NetworkInterface, PartialDrive

DRIVE = Section(
    key="drive",
    title="Drive",
    model=Drive,
    fields=(
        Field("drive_id", "Name", hint="Letters, digits and underscores."),
        Field("path_on_host", "Disk image"),
        Field("is_read_only", "Read only", kind="flag"),
        Field("cache_type", "Cache", kind="choice", choices=("", "Unsafe", "Writeback")),
        Field("io_engine", "I/O engine", kind="choice", choices=("", "Sync", "Async")),
    ),
    send=lambda vm, fields: vm.drive(str(fields["drive_id"])).set(fields),
    fixed={"is_root_device": False},
    about={
        "drive_id": "drive_id",
        "backing file": "path_on_host",
        "block config": "path_on_host",
        "io_uring": "io_engine",
    },
)
DRIVE_MEDIUM = Section(
    key="medium",
    title="Drive",
    model=PartialDrive,
    fields=(
        Field("drive_id", "Name", hint="One of the drives above."),
        Field("path_on_host", "New disk image"),
    ),
    send=lambda vm, fields: vm.drive(str(fields["drive_id"])).update(fields),
    about={"drive_id": "drive_id", "not found": "drive_id", "backing file": "path_on_host"},
)
NETWORK = Section(
    key="network",
    title="Network interface",
    model=NetworkInterface,
    fields=(
        Field("iface_id", "Name", hint="Letters, digits and underscores."),
        Field("host_dev_name", "Tap device"),
        Field("guest_mac", "Hardware address"),
        Field("mtu", "Largest packet in bytes", kind="number"),
    ),
    send=lambda vm, fields: vm.network_interface(str(fields["iface_id"])).set(fields),
    about={
        "iface_id": "iface_id",
        "mac address": "guest_mac",
        "mtu": "mtu",
        "open tap": "host_dev_name",
    },
)
DEVICE_CHANGES = (
    Change(
        name="drive",
        tab="devices",
        button="Save drive",
        working="Saving…",
        done="Drive saved.",
        verb="change drives",
        when=BEFORE_START,
        sections=(DRIVE,),
    ),
    Change(
        name="medium",
        tab="devices",
        button="Change disk image",
        working="Changing…",
        done="The drive has another disk image now.",
        verb="change drives",
        when=AFTER_START,
        sections=(DRIVE_MEDIUM,),
    ),
    Change(
        name="network",
        tab="devices",
        button="Save interface",
        working="Saving…",
        done="Network interface saved.",
        verb="change network interfaces",
        when=BEFORE_START,
        sections=(NETWORK,),
    ),
)
