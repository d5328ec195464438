"""Block devices: before the start a list that is edited, afterwards devices that come and go."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from generated_vmm.testing.bodies.devices import Drive, DriveUpdate
from generated_vmm.testing.machine import Fault, Machine
from generated_vmm.testing.rules.host_files import literal, require_file
from generated_vmm.testing.rules.hotplug import (
    NOT_FOUND,
    refuse_root,
    require_new,
    require_removable,
)
from generated_vmm.testing.rules.rate_limits import effective, merged

NO_DEVICE: Final = "Drive config error: Unable to create the virtio block device: "
NO_PATCH: Final = (
    "Drive config error: Unable to patch the block device: {} Please verify the request arguments."
)
OTHER_BACKEND: Final = NO_PATCH.format("Block: Running method expected different backend.")
BACKING_FILE: Final = "Error manipulating the backing file: {} "


def put_drive(machine: Machine, body: Drive) -> None:
    """PUT /drives/{drive_id}: a known id is replaced, the root device stays first."""
    drives = list(machine.resources.drives)
    if machine.started:
        require_new(machine, [drive.drive_id for drive in drives], body.drive_id)
        machine.resources = replace(machine.resources, drives=(*drives, _usable(machine, body)))
        return
    place = next((n for n, one in enumerate(drives) if one.drive_id == body.drive_id), None)
    has_root = bool(drives) and drives[0].is_root_device
    if body.is_root_device and has_root and place != 0:
        raise Fault("Drive config error: A root block device already exists!")
    if place is None:
        place = len(drives)
    drives[place : place + 1] = [_usable(machine, body)]
    if body.is_root_device:
        drives.insert(0, drives.pop(place))
    machine.resources = replace(machine.resources, drives=tuple(drives))


def patch_drive(machine: Machine, body: DriveUpdate) -> None:
    """PATCH /drives/{drive_id}: another file, other limits; with neither, a vhost-user refresh."""
    drive = next((one for one in machine.resources.drives if one.drive_id == body.drive_id), None)
    if drive is None:
        raise Fault(NO_PATCH.format(NOT_FOUND))
    asks_for_refresh = body.path_on_host is None and body.rate_limiter is None
    if asks_for_refresh != (drive.socket is not None):
        raise Fault(OTHER_BACKEND)
    if asks_for_refresh:
        return
    path = body.path_on_host if body.path_on_host is not None else drive.path_on_host
    if body.path_on_host is not None:
        detail = f"Block: Virtio backend error: {BACKING_FILE}{literal(body.path_on_host)}"
        refusal = NO_PATCH.replace("{}", detail)
        _require_backing_file(machine, drive, body.path_on_host, refusal)
    limiter = merged(drive.rate_limiter, body.rate_limiter)
    changed = replace(drive, path_on_host=path, rate_limiter=limiter)
    machine.resources = replace(
        machine.resources,
        drives=tuple(changed if one is drive else one for one in machine.resources.drives),
    )


def delete_drive(machine: Machine, drive_id: str) -> None:
    """DELETE /drives/{drive_id}."""
    drives = machine.resources.drives
    require_removable(machine, [drive.drive_id for drive in drives], drive_id)
    if any(drive.drive_id == drive_id and drive.is_root_device for drive in drives):
        raise refuse_root()
    machine.resources = replace(
        machine.resources, drives=tuple(drive for drive in drives if drive.drive_id != drive_id)
    )


def _usable(machine: Machine, body: Drive) -> Drive:
    """The drive as /vm/config shows it: a file of the host or a vhost-user socket, never both."""
    file_only = (body.path_on_host, body.is_read_only, body.rate_limiter, body.io_engine)
    if body.socket is not None:
        if any(value is not None for value in file_only):
            raise Fault(NO_DEVICE + "Invalid block config.")
        return body
    if body.path_on_host is None:
        raise Fault(NO_DEVICE + "Invalid block config.")
    _require_backing_file(
        machine,
        body,
        body.path_on_host,
        f"{NO_DEVICE}Virtio backend error: {BACKING_FILE}{literal(body.path_on_host)}",
    )
    return replace(
        body,
        is_read_only=bool(body.is_read_only),
        io_engine=body.io_engine or "Sync",
        rate_limiter=effective(body.rate_limiter),
    )


def _require_backing_file(machine: Machine, drive: Drive, path: str, refusal: str) -> None:
    require_file(machine.options, path, refusal, writable=not drive.is_read_only)
