"""Network interfaces: a tap device of the host each, with a MAC address of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from generated_vmm.testing.machine import Fault, Machine, Members
from generated_vmm.testing.rule import Call, rule
from generated_vmm.testing.rules.devices import (
    NOT_FOUND,
    effective,
    known,
    merged,
    place_of,
    require_hotplug,
    unplug,
)

KIND: Final = "network-interfaces"
LONGEST_NAME: Final = 15
LOWEST_MTU: Final = 68
NO_DEVICE: Final = "Network config error: Could not create the network device: "
LIMITERS: Final = ("rx_rate_limiter", "tx_rate_limiter")


@rule("PUT /network-interfaces/{iface_id}")
def put_network_interface(machine: Machine, call: Call) -> None:
    """A known id goes first, and is gone even when the new one is refused."""
    interfaces, body = machine.devices(KIND), call.body
    if machine.started:
        require_hotplug(machine, interfaces, "iface_id", call.resource_id)
    at = place_of(interfaces, "iface_id", call.resource_id)
    others = interfaces[:at] + interfaces[at + 1 :]
    _require_own_mac(others, body)
    interfaces[:] = others
    name = require_tap(machine, others, body["host_dev_name"], NO_DEVICE)
    mtu = body.get("mtu")
    if mtu is not None and mtu < LOWEST_MTU:
        raise Fault(f"{NO_DEVICE}MTU {mtu} is out of range [{LOWEST_MTU}, 65535]")
    limits = {limiter: effective(body[limiter]) for limiter in LIMITERS}
    interfaces.append(body | limits | {"host_dev_name": name})


@rule("PATCH /network-interfaces/{iface_id}")
def patch_network_interface(machine: Machine, call: Call) -> None:
    """Buckets that are absent stay."""
    refusal = f"Network config error: Unable to update the net device: {NOT_FOUND}"
    interface = known(machine.devices(KIND), "iface_id", call.resource_id, refusal)
    for limiter in LIMITERS:
        interface[limiter] = merged(interface[limiter], call.body[limiter])


@rule("DELETE /network-interfaces/{iface_id}")
def delete_network_interface(machine: Machine, call: Call) -> None:
    """Unplug an interface."""
    unplug(machine, KIND, "iface_id", call.resource_id)


def _require_own_mac(others: list[Members], body: Members) -> None:
    mac = body["guest_mac"]
    if mac is not None and mac in [other["guest_mac"] for other in others]:
        raise Fault(f"Network config error: The MAC address is already in use: {mac}")


def require_tap(machine: Machine, others: list[Members], name: str, refusal: str) -> str:
    """The name of the tap device: the one asked for, or for an empty one what the host gives.

    Raises `Fault` that begins with the refusal.
    """
    taken = [*machine.held_taps, *(other["host_dev_name"] for other in others)]
    if len(name.encode()) > LONGEST_NAME:
        raise Fault(f"{refusal}Open tap device failed: Invalid interface name")
    name = name.partition("\0")[0]  # the host's kernel reads no further
    reason = "Device or resource busy (os error 16)" if name in taken else _unusable(machine, name)
    if reason:
        raise Fault(
            f"{refusal}Open tap device failed: Error while creating ifreq structure: {reason}. "
            f"Invalid TUN/TAP Backend provided by {name}. "
            "Check our documentation on setting up the network devices."
        )
    return name or next(free for n in range(1000) if (free := f"tap{n}") not in taken)


def _unusable(machine: Machine, name: str) -> str:
    devices = machine.options.host_devices
    if devices is not None and name not in devices:
        return "Operation not permitted (os error 1)"
    folder = Path("/sys/class/net") / (name or "none")
    other_kind = folder.is_dir() and not (folder / "tun_flags").exists()
    if any(sign in name for sign in "/: ") or (other_kind and machine.options.check_files):
        return "Invalid argument (os error 22)"
    return ""
