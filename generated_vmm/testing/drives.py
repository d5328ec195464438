"""Block devices: before the start a list that is edited, afterwards devices that come and go."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from . import bodies
from .host_files import require_file
from .machine import Fault, Machine

NO_DEVICE: Final = "Drive config error: Unable to create the virtio block device: "


def put_drive(machine: Machine, body: bodies.Drive) -> None:
    """PUT /drives/{drive_id}: a known id is replaced, the root device stays first."""
    place = next((n for n, one in enumerate(machine.drives) if one.drive_id == body.drive_id), None)
    has_root = bool(machine.drives) and machine.drives[0].is_root_device
    if body.is_root_device and has_root and place != 0:
        raise Fault("Drive config error: A root block device already exists!")
    drive = _usable(machine, body)
    if place is None:
        place = len(machine.drives)
        machine.drives.append(drive)
    else:
        machine.drives[place] = drive
    if body.is_root_device:
        machine.drives.insert(0, machine.drives.pop(place))


def _usable(machine: Machine, body: bodies.Drive) -> bodies.Drive:
    """The drive as /vm/config shows it: a file of the host or a vhost-user socket, never both."""
    if body.path_on_host is None and body.socket is None:
        raise Fault(NO_DEVICE + "Invalid block config.")
    if body.socket is not None:
        file_only = (body.path_on_host, body.is_read_only, body.rate_limiter, body.io_engine)
        if any(value is not None for value in file_only):
            raise Fault(NO_DEVICE + "Invalid block config.")
        return body
    assert body.path_on_host is not None
    require_file(
        machine.options,
        body.path_on_host,
        NO_DEVICE
        + "Virtio backend error: Error manipulating the backing file: {} "
        + body.path_on_host.replace("{", "{{").replace("}", "}}"),
        writable=not body.is_read_only,
    )
    return replace(body, is_read_only=bool(body.is_read_only), io_engine=body.io_engine or "Sync")
