"""Network interfaces: a tap device of the host each, with a MAC address of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from generated_vmm.testing.bodies.devices import NetworkInterface, NetworkInterfaceUpdate
from generated_vmm.testing.machine import Fault, Machine
from generated_vmm.testing.rules.hotplug import NOT_FOUND, require_new, require_removable
from generated_vmm.testing.rules.rate_limits import effective, merged

MTU_RANGE: Final = range(68, 65536)
NO_DEVICE: Final = "Network config error: Could not create the network device: "


def put_network_interface(machine: Machine, body: NetworkInterface) -> None:
    """PUT /network-interfaces/{iface_id}: a known id is replaced."""
    known = machine.resources.network_interfaces
    if machine.started:
        require_new(machine, [interface.iface_id for interface in known], body.iface_id)
    others = [interface for interface in known if interface.iface_id != body.iface_id]
    _require_own_mac(others, body)
    _require_mtu(body)
    _require_tap(machine, others, body.host_dev_name)
    interface = replace(
        body,
        rx_rate_limiter=effective(body.rx_rate_limiter),
        tx_rate_limiter=effective(body.tx_rate_limiter),
    )
    ids = [one.iface_id for one in known]
    place = ids.index(body.iface_id) if body.iface_id in ids else len(ids)
    machine.resources = replace(
        machine.resources, network_interfaces=(*known[:place], interface, *known[place + 1 :])
    )


def patch_network_interface(machine: Machine, body: NetworkInterfaceUpdate) -> None:
    """PATCH /network-interfaces/{iface_id}: buckets that are absent stay."""
    known = machine.resources.network_interfaces
    if body.iface_id not in [interface.iface_id for interface in known]:
        raise Fault(f"Network config error: {NOT_FOUND}")
    machine.resources = replace(
        machine.resources,
        network_interfaces=tuple(
            _updated(interface, body) if interface.iface_id == body.iface_id else interface
            for interface in known
        ),
    )


def delete_network_interface(machine: Machine, iface_id: str) -> None:
    """DELETE /network-interfaces/{iface_id}."""
    known = machine.resources.network_interfaces
    require_removable(machine, [interface.iface_id for interface in known], iface_id)
    machine.resources = replace(
        machine.resources,
        network_interfaces=tuple(one for one in known if one.iface_id != iface_id),
    )


def _updated(interface: NetworkInterface, update: NetworkInterfaceUpdate) -> NetworkInterface:
    return replace(
        interface,
        rx_rate_limiter=merged(interface.rx_rate_limiter, update.rx_rate_limiter),
        tx_rate_limiter=merged(interface.tx_rate_limiter, update.tx_rate_limiter),
    )


def _require_own_mac(others: list[NetworkInterface], body: NetworkInterface) -> None:
    if body.guest_mac is not None and body.guest_mac in [other.guest_mac for other in others]:
        raise Fault(f"Network config error: The MAC address is already in use: {body.guest_mac}")


def _require_mtu(body: NetworkInterface) -> None:
    if body.mtu is not None and body.mtu not in MTU_RANGE:
        raise Fault(f"{NO_DEVICE}MTU {body.mtu} is out of range [68, 65535]")


def _require_tap(machine: Machine, others: list[NetworkInterface], tap: str) -> None:
    devices = machine.options.host_devices
    reason = ""
    if devices is not None and tap not in devices:
        reason = "Operation not permitted (os error 1)"
    elif tap in [other.host_dev_name for other in others]:
        reason = "Device or resource busy (os error 16)"
    if reason:
        raise Fault(
            f"{NO_DEVICE}Open tap device failed: Error while creating ifreq structure: {reason}. "
            f"Invalid TUN/TAP Backend provided by {tap}. "
            "Check our documentation on setting up the network devices."
        )
