"""Persistent memory devices: files of the host mapped into the guest."""

from __future__ import annotations

from dataclasses import replace

from generated_vmm.testing.bodies.devices import Pmem, PmemUpdate
from generated_vmm.testing.machine import Fault, Machine
from generated_vmm.testing.rules.host_files import require_file
from generated_vmm.testing.rules.hotplug import (
    NOT_FOUND,
    refuse_root,
    require_new,
    require_removable,
)
from generated_vmm.testing.rules.rate_limits import merged


def put_pmem(machine: Machine, body: Pmem) -> None:
    """PUT /pmem/{id}: a known id is replaced."""
    known = machine.resources.pmem
    if machine.started:
        require_new(machine, [device.id for device in known], body.id)
    others = [device for device in known if device.id != body.id]
    if body.root_device and any(device.root_device for device in others):
        raise Fault("Pmem device error: A root pmem device already exist")
    require_file(
        machine.options,
        body.path_on_host,
        "Pmem device error: Unable to create the virtio-pmem device: "
        "Error accessing backing file: {}",
        writable=not body.read_only,
    )
    place = next((n for n, device in enumerate(known) if device.id == body.id), len(known))
    machine.resources = replace(machine.resources, pmem=(*known[:place], body, *known[place + 1 :]))


def patch_pmem(machine: Machine, body: PmemUpdate) -> None:
    """PATCH /pmem/{id}: without a rate limiter it is accepted for any id and does nothing."""
    if body.rate_limiter is None:
        return
    known = machine.resources.pmem
    if body.id not in [device.id for device in known]:
        raise Fault(f"Pmem device error: {NOT_FOUND}")
    machine.resources = replace(
        machine.resources,
        pmem=tuple(
            replace(device, rate_limiter=merged(device.rate_limiter, body.rate_limiter))
            if device.id == body.id
            else device
            for device in known
        ),
    )


def delete_pmem(machine: Machine, pmem_id: str) -> None:
    """DELETE /pmem/{id}."""
    known = machine.resources.pmem
    require_removable(machine, [device.id for device in known], pmem_id)
    if any(device.id == pmem_id and device.root_device for device in known):
        raise refuse_root()
    machine.resources = replace(
        machine.resources, pmem=tuple(device for device in known if device.id != pmem_id)
    )
