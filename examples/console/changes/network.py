"""Network interfaces: each is a tap device of the host."""

from __future__ import annotations

from examples.console.changes.change import Item, Panel
from examples.console.changes.devices import Kind, by_id, device_changes, ids_of
from examples.console.fields import Field, limits, rare
from examples.console.forms import Section
from examples.console.machine import Machine
from generated_vmm import NetworkInterface, PartialNetworkInterface


def _interfaces(machine: Machine) -> list[NetworkInterface]:
    return machine.interfaces


def _items(machine: Machine) -> list[Item]:
    return [Item(one.iface_id, _tags(one), one.guest_mac or "") for one in machine.interfaces]


def _tags(interface: NetworkInterface) -> list[str]:
    limited = interface.rx_rate_limiter or interface.tx_rate_limiter
    return [interface.host_dev_name, *(["limited"] if limited else [])]


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
    current=by_id(_interfaces, "iface_id"),
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
    current=by_id(_interfaces, "iface_id"),
)
KIND = Kind(
    name="network",
    id_name="iface_id",
    section=NETWORK,
    limits=LIMITS,
    ids=ids_of(_interfaces, "iface_id"),
    removable=ids_of(_interfaces, "iface_id"),
    delete=lambda vm, iface_id: vm.network_interface(iface_id).delete(),
)
NETWORKS = Panel(key="networks", aside=True, items=_items, changes=device_changes(KIND))
