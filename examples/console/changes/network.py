"""Network interfaces: each is a tap device of the host."""

from __future__ import annotations

from examples.console.changes.change import Item, Panel
from examples.console.changes.devices import Kind, device_changes
from examples.console.fields import Field, limits, rare
from examples.console.forms import Section
from examples.console.machine import Machine
from generated_vmm import FullVmConfiguration, NetworkInterface, PartialNetworkInterface


def _item(interface: NetworkInterface) -> Item:
    limited = interface.rx_rate_limiter or interface.tx_rate_limiter
    tags = [interface.host_dev_name, *(["limited"] if limited else [])]
    return Item(interface.iface_id, tags, interface.guest_mac or "")


def _interface(machine: Machine, iface_id: str) -> NetworkInterface | None:
    return next((one for one in machine.interfaces if one.iface_id == iface_id), None)


def _ids(machine: Machine) -> list[str]:
    return [one.iface_id for one in machine.interfaces]


def _drop(made: FullVmConfiguration, iface_id: str) -> None:
    made.network_interfaces = [
        one for one in made.network_interfaces or [] if one.iface_id != iface_id
    ]


LIMITED = (*limits("rx_rate_limiter", "received"), *limits("tx_rate_limiter", "sent"))

NETWORK = Section(
    key="network",
    title="Network interface",
    model=NetworkInterface,
    fields=(
        Field("iface_id", "Name"),
        Field("host_dev_name", "Tap device"),
        *rare(
            (
                Field("guest_mac", "Hardware address"),
                Field("mtu", "Largest packet in bytes", kind="number"),
                *LIMITED,
            )
        ),
    ),
    send=lambda vm, fields: vm.network_interface(str(fields["iface_id"])).set(fields),
    current=_interface,
    about={
        "device id in use": "iface_id",
        "iface_id": "iface_id",
        "mac address": "guest_mac",
        "mtu": "mtu",
        "open tap": "host_dev_name",
    },
)
LIMITS = Section(
    key="network_limits",
    title="Limits",
    model=PartialNetworkInterface,
    fields=(Field("iface_id", "Name", kind="item"), *LIMITED),
    send=lambda vm, fields: vm.network_interface(str(fields["iface_id"])).update(fields),
    current=_interface,
)
KIND = Kind(
    name="network",
    id_name="iface_id",
    section=NETWORK,
    limits=LIMITS,
    ids=_ids,
    removable=_ids,
    delete=lambda vm, iface_id: vm.network_interface(iface_id).delete(),
    drop=_drop,
)
NETWORKS = Panel(
    key="networks",
    aside=True,
    items=lambda machine: [_item(one) for one in machine.interfaces],
    changes=device_changes(KIND),
)
