"""Drives, pmem devices and network interfaces: lists of devices that come and go."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from generated_vmm.process.keeper.kernel import Descriptor
from generated_vmm.testing.host import connect_once, refusing
from generated_vmm.testing.machine import Fault, Machine, Members
from generated_vmm.testing.resources import NOT_FOUND, stored
from generated_vmm.testing.rule import Call, action, check
from generated_vmm.testing.rules.boot import require_pmem_file

NETWORK: Final = "/network-interfaces"
DRIVE: Final = "/drives/{drive_id}"
PMEM: Final = "/pmem/{id}"
INTERFACE: Final = "/network-interfaces/{iface_id}"
ROOTS: Final = {"/drives": "is_root_device", "/pmem": "root_device"}
"""The flag of the device that the guest boots from."""
SECOND_ROOT: Final[Mapping[tuple[str, str], str]] = {
    ("/drives", "/drives"): "Drive config error: A root block device already exists!",
    ("/drives", "/pmem"): "Drive config error: Attempt to add block as a root device while the "
    "root device defined as a pmem device",
    ("/pmem", "/pmem"): "Pmem config error: A root pmem device already exist",
    ("/pmem", "/drives"): "Pmem config error: Attempt to add pmem as a root device while the root "
    "device defined as a block device",
}
NO_DRIVE: Final = "Drive config error: Unable to create the virtio block device: "
NO_PATCH: Final = "Drive config error: Unable to patch the block device: "
VERIFY: Final = " Please verify the request arguments."
BACKING_FILE: Final = "Virtio backend error: Error manipulating the backing file: {} "
NO_INTERFACE: Final = "Network config error: Could not create the network device: "
LONGEST_TAP_NAME: Final = 15
LOWEST_MTU: Final = 68


@check(f"PUT {DRIVE}", f"PUT {PMEM}")
def require_one_root(machine: Machine, call: Call) -> None:
    """Refuse a second root device among drives and pmem, and any while the guest runs."""
    if not call.body.get(ROOTS[call.resource]):
        return
    # A running guest has booted: no root device can be added, even if there is none.
    root = _root(machine) or (("/drives", "") if machine.started else None)
    if root is not None and root != (call.resource, call.id):
        raise Fault(SECOND_ROOT[call.resource, root[0]])


@check(f"DELETE {DRIVE}", f"DELETE {PMEM}")
def leave_root(machine: Machine, call: Call) -> None:
    """Refuse to unplug the root device."""
    if _root(machine) == (call.resource, call.id):
        raise Fault("Cannot unplug root device")
    machine.disks.pop(call.id, None)


def _root(machine: Machine) -> tuple[str, str] | None:
    """Path and id of the device the guest boots from."""
    for path, flag in ROOTS.items():
        for name, device in machine.devices(path).items():
            if device.get(flag):
                return path, name
    return None


@check(f"PUT {DRIVE}")
def require_drive(
    machine: Machine, call: Call, socket: str | None, path_on_host: str | None
) -> None:
    """Require a file of the host or a vhost-user socket, never both."""
    for_files = ("path_on_host", "is_read_only", "rate_limiter", "io_engine")
    given = [name for name in for_files if call.body.get(name) is not None]
    if given if socket is not None else path_on_host is None:
        raise Fault(f"{NO_DRIVE}Invalid block config.")
    if socket is not None and machine.options.check_files:
        unreachable = "Vhost-user error: Failed to connect to UDS Unix stream: {}"
        with refusing(f"{NO_DRIVE}Vhost user backend error: {unreachable}"):
            connect_once(socket)
    if path_on_host is not None:
        require_backing_file(machine, call.body, f"{NO_DRIVE}{BACKING_FILE}{path_on_host}")
        usual = {"is_read_only": False, "io_engine": "Sync"}
        absent = {name for name in usual if name in call.body and call.body[name] is None}
        call.body |= {name: usual[name] for name in absent}


@check(f"PUT {DRIVE}")
def put_root_first(machine: Machine, call: Call, is_root_device: bool) -> None:
    """Put the root device before the drives that came earlier."""
    drives = machine.devices(call.resource)
    if is_root_device:
        others = {name: drives[name] for name in drives if name != call.id}
        drives.clear()
        drives.update({call.id: call.body} | others)


@check(f"PATCH {DRIVE}")
def require_same_backend(
    machine: Machine, call: Call, path_on_host: str | None, rate_limiter: Members | None
) -> None:
    """Allow another file and other limits for files, and a refresh for vhost-user drives."""
    drive = stored(machine, call, f"{NO_PATCH}{NOT_FOUND}{VERIFY}")
    asks_for_refresh = path_on_host is None and rate_limiter is None
    if asks_for_refresh != (drive.get("socket") is not None):
        raise Fault(f"{NO_PATCH}Block: Running method expected different backend.{VERIFY}")
    if path_on_host is not None:
        refusal = f"{NO_PATCH}Block: {BACKING_FILE}{path_on_host}{VERIFY}"
        require_backing_file(machine, drive | {"path_on_host": path_on_host}, refusal)


def require_backing_file(machine: Machine, drive: Members, refusal: str) -> None:
    """Refuse a drive whose file cannot be opened; `{}` is replaced by the reason."""
    if machine.options.check_files and (path := drive.get("path_on_host")) is not None:
        flags = os.O_NONBLOCK | (os.O_RDONLY if drive.get("is_read_only") else os.O_RDWR)
        with refusing(refusal):
            machine.disks[drive["drive_id"]] = Descriptor(os.open, path, flags)


@check(f"PUT {PMEM}")
def require_plugged_file(machine: Machine, call: Call) -> None:
    """Refuse to plug in a file that cannot be used; before the start it is not opened."""
    if machine.started and machine.options.check_files:
        refusal = "Pmem config error: Unable to create the virtio-pmem device: {}"
        require_pmem_file(call.body, refusal)


@action(f"PUT {PMEM}")
def put_pmem(machine: Machine, call: Call) -> None:
    """Store the device with its limits as they were given."""
    machine.devices(call.resource)[call.id] = call.body


@action(f"PATCH {PMEM}")
def patch_pmem(machine: Machine, call: Call, rate_limiter: Members | None) -> None:
    """Accept limits, which are shown nowhere; a PATCH without limits is accepted for any id."""
    if rate_limiter is not None:
        refusal = "Pmem config error: Unable to patch the pmem device: "
        stored(machine, call, f"{refusal}{NOT_FOUND}{VERIFY}")


@check(f"PUT {INTERFACE}")
def require_own_mac(machine: Machine, call: Call, guest_mac: str | None) -> None:
    """Refuse the MAC address of another interface."""
    if guest_mac in _others(machine, call, "guest_mac"):
        raise Fault(f"Network config error: The MAC address is already in use: {guest_mac}")


@check(f"PUT {INTERFACE}")
def forget_former(machine: Machine, call: Call) -> None:
    """Remove the interface with this id, even if the new one is refused."""
    machine.devices(call.resource).pop(call.id, None)


@check(f"PUT {INTERFACE}", f"DELETE {INTERFACE}")
def leave_metadata_service(machine: Machine, call: Call) -> None:
    """Remove the interface from the metadata service, which ends with its last interface."""
    left = machine.value("/mmds/config", "network_interfaces", [])
    if call.id in left:
        left.remove(call.id)
        if not left:
            del machine.resources["/mmds/config"]


@check(f"PUT {INTERFACE}")
def take_tap(machine: Machine, call: Call, host_dev_name: str) -> None:
    """Open the tap device; the host names one for an empty name."""
    taken = [*machine.held_taps, *_others(machine, call, "host_dev_name")]
    name = require_tap(machine, taken, host_dev_name, NO_INTERFACE)
    free = (f"tap{number}" for number in range(len(taken) + 1))
    call.body["host_dev_name"] = name or next(one for one in free if one not in taken)


@check(f"PUT {INTERFACE}")
def require_mtu(mtu: int | None) -> None:
    """Refuse a low MTU with the device's text, as the monitor does."""
    if mtu is not None and mtu < LOWEST_MTU:
        raise Fault(f"{NO_INTERFACE}MTU {mtu} is out of range [{LOWEST_MTU}, 65535]")


@check(f"PATCH {INTERFACE}")
def require_interface(machine: Machine, call: Call) -> None:
    """Refuse an unknown interface."""
    stored(machine, call, f"Network config error: Unable to update the net device: {NOT_FOUND}")


def _others(machine: Machine, call: Call, name: str) -> list[Any]:
    """The values of one field of the other interfaces."""
    devices = machine.devices(call.resource).items()
    found = [device.get(name) for device_id, device in devices if device_id != call.id]
    return [value for value in found if value is not None]


def require_tap(machine: Machine, taken: list[str], given: str, refusal: str) -> str:
    """The name as the host's kernel reads it. Raises `Fault` that begins with the refusal."""
    if len(given.encode()) > LONGEST_TAP_NAME:
        raise Fault(f"{refusal}Open tap device failed: Invalid interface name")
    name = given.partition("\0")[0]
    reason = "Device or resource busy (os error 16)" if name in taken else _unusable(machine, name)
    if reason:
        raise Fault(
            f"{refusal}Open tap device failed: Error while creating ifreq structure: {reason}. "
            f"Invalid TUN/TAP Backend provided by {name}. "
            "Check our documentation on setting up the network devices."
        )
    return name


def _unusable(machine: Machine, name: str) -> str:
    devices = machine.options.host_devices
    if devices is not None and name not in devices:
        return "Operation not permitted (os error 1)"
    folder = Path("/sys/class/net") / (name or "none")
    other_kind = folder.is_dir() and not (folder / "tun_flags").exists()
    if any(sign in name for sign in "/: ") or (other_kind and machine.options.check_files):
        return "Invalid argument (os error 22)"
    return ""
