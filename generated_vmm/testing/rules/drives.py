"""Block devices: before the start a list that is edited, afterwards devices that come and go."""

from __future__ import annotations

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
    root_of,
    unplug,
)
from generated_vmm.testing.rules.host_files import connect_fault, require_file

NO_DEVICE: Final = "Drive config error: Unable to create the virtio block device: "
NO_PATCH: Final = "Drive config error: Unable to patch the block device: "
VERIFY: Final = " Please verify the request arguments."
BACKING_FILE: Final = "Virtio backend error: Error manipulating the backing file: {} "
FILE_ONLY: Final = ("path_on_host", "is_read_only", "rate_limiter", "io_engine")


@rule("PUT /drives/{drive_id}")
def put_drive(machine: Machine, call: Call) -> None:
    """A known id is replaced, the root device stays first; after the start it is plugged in."""
    drives, drive = machine.devices("drives"), call.body
    if machine.started:
        require_hotplug(machine, drives, "drive_id", drive["drive_id"])
    _require_one_root(machine, drive)
    usable = _usable(machine, drive)
    at = place_of(drives, "drive_id", drive["drive_id"])
    drives[at : at + 1] = [usable]
    if drive["is_root_device"]:
        drives.insert(0, drives.pop(at))


def _require_one_root(machine: Machine, drive: Members) -> None:
    if not drive["is_root_device"]:
        return
    # What a running guest has booted from cannot be added any more, whether or not it is here.
    root = root_of(machine) or (("drives", "") if machine.started else None)
    if root is None or root == ("drives", drive["drive_id"]):
        return
    if root[0] == "pmem":
        raise Fault(
            "Drive config error: Attempt to add block as a root device while the root device "
            "defined as a pmem device"
        )
    raise Fault("Drive config error: A root block device already exists!")


@rule("PATCH /drives/{drive_id}")
def patch_drive(machine: Machine, call: Call) -> None:
    """Another file, other limits; with neither, a refresh that only vhost-user drives know."""
    path, limiter = call.body["path_on_host"], call.body["rate_limiter"]
    drive = known(
        machine.devices("drives"), "drive_id", call.resource_id, f"{NO_PATCH}{NOT_FOUND}{VERIFY}"
    )
    asks_for_refresh = path is None and limiter is None
    if asks_for_refresh != (drive["socket"] is not None):
        raise Fault(f"{NO_PATCH}Block: Running method expected different backend.{VERIFY}")
    if path is not None:
        refusal = f"{NO_PATCH}Block: {BACKING_FILE}{path}{VERIFY}"
        require_file(machine.options, path, refusal, writable=not drive["is_read_only"])
        drive["path_on_host"] = path
    drive["rate_limiter"] = merged(drive["rate_limiter"], limiter)


@rule("DELETE /drives/{drive_id}")
def delete_drive(machine: Machine, call: Call) -> None:
    """Unplug a drive."""
    unplug(machine, "drives", "drive_id", call.resource_id, "is_root_device")


def _usable(machine: Machine, body: Members) -> Members:
    """The drive as /vm/config shows it: a file of the host or a vhost-user socket, never both."""
    path, backend = body["path_on_host"], body["socket"]
    given = [body[name] is not None for name in FILE_ONLY]
    if any(given) if backend is not None else path is None:
        raise Fault(NO_DEVICE + "Invalid block config.")
    if backend is not None:
        reason = connect_fault(backend) if machine.options.check_files else ""
        if reason:
            unreachable = f"Vhost-user error: Failed to connect to UDS Unix stream: {reason}"
            raise Fault(f"{NO_DEVICE}Vhost user backend error: {unreachable}")
        return body
    refusal = f"{NO_DEVICE}{BACKING_FILE}{path}"
    require_file(machine.options, path, refusal, writable=not body["is_read_only"])
    return body | {
        "is_read_only": bool(body["is_read_only"]),
        "io_engine": body["io_engine"] or "Sync",
        "rate_limiter": effective(body["rate_limiter"]),
    }
