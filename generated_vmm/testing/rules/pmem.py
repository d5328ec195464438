"""Persistent memory devices: files of the host mapped into the guest."""

from __future__ import annotations

from generated_vmm.testing.machine import Fault, Machine, Members
from generated_vmm.testing.rule import Call, rule
from generated_vmm.testing.rules.boot import pmem_fault
from generated_vmm.testing.rules.devices import (
    NOT_FOUND,
    known,
    place_of,
    require_hotplug,
    root_of,
    unplug,
)


@rule("PUT /pmem/{id}")
def put_pmem(machine: Machine, call: Call) -> None:
    """A known id is replaced. The file is opened at the start, or when the device is plugged in."""
    devices = machine.devices("pmem")
    if machine.started:
        require_hotplug(machine, devices, "id", call.resource_id)
    _require_one_root(machine, call.body)
    reason = pmem_fault(call.body) if machine.started and machine.options.check_files else ""
    if reason:
        raise Fault(f"Pmem config error: Unable to create the virtio-pmem device: {reason}")
    at = place_of(devices, "id", call.resource_id)
    devices[at : at + 1] = [call.body]


def _require_one_root(machine: Machine, device: Members) -> None:
    if not device["root_device"]:
        return
    # What a running guest has booted from cannot be added any more, whether or not it is here.
    root = root_of(machine) or (("drives", "") if machine.started else None)
    if root is None or root == ("pmem", device["id"]):
        return
    if root[0] == "drives":
        raise Fault(
            "Pmem config error: Attempt to add pmem as a root device while the root device "
            "defined as a block device"
        )
    raise Fault("Pmem config error: A root pmem device already exist")


@rule("PATCH /pmem/{id}")
def patch_pmem(machine: Machine, call: Call) -> None:
    """The limits it sets show nowhere; without any it is accepted for any id."""
    if call.body["rate_limiter"] is not None:
        refusal = (
            f"Pmem config error: Unable to patch the pmem device: {NOT_FOUND} "
            "Please verify the request arguments."
        )
        known(machine.devices("pmem"), "id", call.resource_id, refusal)


@rule("DELETE /pmem/{id}")
def delete_pmem(machine: Machine, call: Call) -> None:
    """Unplug a pmem device."""
    unplug(machine, "pmem", "id", call.resource_id, "root_device")
