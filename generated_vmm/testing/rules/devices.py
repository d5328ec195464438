"""What drives, pmem and network interfaces share: lists of devices that come and go."""

from __future__ import annotations

from typing import Final

from generated_vmm.testing.machine import Fault, Machine, Members

NOT_FOUND: Final = "Failed perform action on device: Device not found"
ROOTS: Final = (("drives", "drive_id", "is_root_device"), ("pmem", "id", "root_device"))


def place_of(devices: list[Members], key: str, device_id: str) -> int:
    """Where the device stands in its list; the end of the list when it is not there."""
    ids = [device[key] for device in devices]
    return ids.index(device_id) if device_id in ids else len(ids)


def known(devices: list[Members], key: str, device_id: str, refusal: str) -> Members:
    """The device with this id. Raises `Fault` with the refusal."""
    at = place_of(devices, key, device_id)
    if at == len(devices):
        raise Fault(refusal)
    return devices[at]


def require_hotplug(machine: Machine, devices: list[Members], key: str, device_id: str) -> None:
    """Refuse to plug in a device without PCI, or under an id that is taken."""
    if not machine.options.enable_pci:
        raise Fault("PCI is not enabled")
    if place_of(devices, key, device_id) < len(devices):
        raise Fault("Device ID in use")


def unplug(machine: Machine, kind: str, key: str, device_id: str, root: str = "") -> None:
    """Take a device away. Raises `Fault` without PCI, for an unknown one and for the root."""
    if not machine.options.enable_pci:
        raise Fault("PCI is not enabled")
    devices = machine.devices(kind)
    device = known(devices, key, device_id, "Device not found")
    if root and device[root]:
        raise Fault("Cannot unplug root device")
    devices.remove(device)


def root_of(machine: Machine) -> tuple[str, str] | None:
    """Kind and id of the device the guest boots from."""
    for kind, key, root in (
        ("drives", "drive_id", "is_root_device"),
        ("pmem", "id", "root_device"),
    ):
        for device in machine.devices(kind):
            if device[root]:
                return kind, device[key]
    return None


def effective(limiter: Members | None) -> Members | None:
    """The limiter as /vm/config shows it; None when it limits nothing."""
    if limiter is None:
        return None
    kept = {name: _on(bucket) for name, bucket in limiter.items()}
    return kept if any(kept.values()) else None


def merged(current: Members | None, update: Members | None) -> Members | None:
    """The limiter after a PATCH: an absent bucket stays, one that is off is removed."""
    given = {name: bucket for name, bucket in (update or {}).items() if bucket is not None}
    base = current or dict.fromkeys(update or {})
    return effective(base | given)


def _on(bucket: Members | None) -> Members | None:
    if bucket is None or not bucket["size"] or not bucket["refill_time"]:
        return None
    return bucket | {"one_time_burst": bucket["one_time_burst"] or None}
