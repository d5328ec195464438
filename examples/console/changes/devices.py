"""Devices: drives, network interfaces, and the vsock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pydantic import Field as ModelField

from examples.console.changes.change import ANY_TIME, STOPPED, Change, Item, Panel, Parsed, edit
from examples.console.changes.setup import INPUT_AND_OUTPUT
from examples.console.events import person
from examples.console.forms import Field, Section, as_item, rare, without
from examples.console.hosted import HostedMonitor
from examples.console.monitors import Machine
from generated_vmm import Drive, NetworkInterface, Vsock
from generated_vmm.model import ApiModel

DRIVE = Section(
    key="drive",
    title="Drive",
    model=Drive,
    member="drives",
    id_name="drive_id",
    fields=(
        Field("drive_id", "Name"),
        Field("path_on_host", "Disk image", places=("disks",)),
        Field("is_read_only", "Read only", kind="flag"),
        *INPUT_AND_OUTPUT,
    ),
    fixed={"is_root_device": False},
)
NETWORK = Section(
    key="network",
    title="Network interface",
    model=NetworkInterface,
    member="network_interfaces",
    id_name="iface_id",
    fields=(
        Field("iface_id", "Name"),
        Field("host_dev_name", "Tap device"),
        *rare(
            Field("guest_mac", "Hardware address"),
            Field("mtu", "Largest packet in bytes", kind="number"),
        ),
    ),
)
VSOCK = Section(
    key="vsock",
    title="Vsock",
    model=Vsock,
    member="vsock",
    fields=(Field("guest_cid", "Address of the guest", "number", initial="3"),),
    fixed={"uds_path": "vsock.socket"},
)


class Growth(ApiModel):
    """A larger size of one of the machine's own disks."""

    drive_id: str
    size_mib: int = ModelField(description="In MiB; not smaller than it is.", ge=1)


GROWTH = Section(
    key="growth",
    title="Size",
    model=Growth,
    fields=(Field("drive_id", "Name", kind="item"), Field("size_mib", "New size", "number")),
)


class Removal(ApiModel):
    """A device that is taken away."""

    name: str


async def _grow(monitor: HostedMonitor, parsed: Parsed) -> None:
    wish = Growth.model_validate(parsed[GROWTH.key])
    await monitor.machine.grow(wish.drive_id, wish.size_mib << 20, by=person().name)


def _drives(machine: Machine) -> list[Item]:
    return [
        Item(
            one.drive_id,
            [*(["root"] * one.is_root_device), *(["read only"] * bool(one.is_read_only))],
            one.path_on_host or one.socket or "",
        )
        for one in machine.configuration.drives or []
    ]


def _own(machine: Machine) -> list[str]:
    return [one.id for one in _drives(machine) if one.detail[:1] != "/"]


def _interfaces(machine: Machine) -> list[Item]:
    return [
        Item(one.iface_id, [one.host_dev_name], one.guest_mac or "")
        for one in machine.configuration.network_interfaces or []
    ]


def _changes(
    section: Section, devices: Callable[[Machine], Sequence[Item]]
) -> tuple[Change, Change, Change]:
    """Adding a device of a kind, changing one, and removing one."""

    def ids(machine: Machine) -> list[str]:
        return [one.id for one in devices(machine)]

    fields = as_item(section.fields, section.id_name)
    anew = replace(section, key=f"{section.key}_anew", fields=fields)
    name = f"{section.key}_removal"
    removal = Section(name, "", Removal, (Field("name", "Name", kind="item"),))

    async def remove(monitor: HostedMonitor, parsed: Parsed) -> None:
        device = str(parsed[name]["name"])
        await monitor.edit(without(monitor.machine.definition, section, device))

    return (
        edit(section.key, section),
        edit(anew.key, anew, items=ids),
        Change(name=name, when=STOPPED, sections=(removal,), items=ids, of_hosted=remove),
    )


DRIVES = Panel(
    key="drives",
    items=_drives,
    changes=(
        *_changes(DRIVE, _drives),
        Change(name="grow", when=ANY_TIME, sections=(GROWTH,), items=_own, of_hosted=_grow),
    ),
)
NETWORKS = Panel(
    key="networks", aside=True, items=_interfaces, changes=_changes(NETWORK, _interfaces)
)
VSOCKS = Panel(key="vsocks", aside=True, changes=(edit("vsock", VSOCK),))
