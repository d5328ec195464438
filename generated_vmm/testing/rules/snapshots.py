"""Snapshots: two files that another simulated monitor can go on from."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from generated_vmm.testing.bodies import machine as bodies
from generated_vmm.testing.json.reader import Misread
from generated_vmm.testing.json.structs import read_body
from generated_vmm.testing.json.writer import json_bytes
from generated_vmm.testing.machine import Fault, Machine, Phase
from generated_vmm.testing.resources import Resources
from generated_vmm.testing.rules.host_files import system_reason
from generated_vmm.testing.rules.outlets import bind_vsock

BYTES_PER_MIB: Final = 1 << 20
MAGIC: Final = b"generated_vmm simulated snapshot 1\n"
NOT_SAVED: Final = "Create snapshot error: Cannot perform open on the {} backing file: {}"
NOT_RESTORED: Final = "Load snapshot error: Failed to restore from snapshot: "
NO_STATE: Final = f"{NOT_RESTORED}Failed to get snapshot state from file: "
NO_MEMORY: Final = (
    f"{NOT_RESTORED}Failed to load guest memory: Error creating guest memory from file: "
)


def create_snapshot(machine: Machine, body: bodies.SnapshotCreate) -> None:
    """PUT /snapshot/create: only while paused; the memory file is as large as the memory."""
    if machine.phase is not Phase.PAUSED:
        raise Fault(
            "Create snapshot error: Cannot save the microVM state: "
            "Operation not allowed: save/restore unavailable while running"
        )
    _write(body.snapshot_path, "snapshot", MAGIC + json_bytes(asdict(machine.resources)))
    size = machine.resources.machine_config.mem_size_mib * BYTES_PER_MIB
    _write(body.mem_file_path, "memory", b"", size=size)


def load_snapshot(machine: Machine, body: bodies.SnapshotLoad) -> None:
    """PUT /snapshot/load: only on a fresh process, which ends when it cannot be done."""
    if machine.boot_path_configured:
        raise Fault(
            "Load snapshot error: Loading a microVM snapshot not allowed after configuring "
            "boot-specific resources."
        )
    try:
        _restore(machine, body)
    except Fault:
        machine.exit_code = 1
        raise


def require_one_memory(body: bodies.SnapshotLoad) -> None:
    """Refuse a load with no memory to load, or with two. Raises `Misread`."""
    if body.mem_backend is not None and body.mem_file_path is not None:
        raise Misread(
            "too many fields: either `mem_backend` or `mem_file_path` exclusively is required"
        )
    if body.mem_backend is None and body.mem_file_path is None:
        raise Misread("missing field: either `mem_backend` or `mem_file_path` is required")


def _restore(machine: Machine, body: bodies.SnapshotLoad) -> None:
    resources = _read_state(body.snapshot_path)
    memory_path = body.mem_backend.backend_path if body.mem_backend else body.mem_file_path
    _read(memory_path or "", NO_MEMORY + "Failed to load guest memory: {}", limit=0)
    resources = _with_network_overrides(resources, body.network_overrides)
    tracks = body.track_dirty_pages or body.enable_diff_snapshots
    config = replace(resources.machine_config, track_dirty_pages=tracks)
    machine.resources = replace(resources, machine_config=config)
    _restore_vsock(machine, body.vsock_override)
    machine.run_guest(Phase.RUNNING if body.resume_vm else Phase.PAUSED)


def _with_network_overrides(
    resources: Resources, overrides: tuple[bodies.NetworkOverride, ...]
) -> Resources:
    names = {override.iface_id: override.host_dev_name for override in overrides}
    interfaces = resources.network_interfaces
    if not set(names) <= {interface.iface_id for interface in interfaces}:
        raise Fault(f"{NOT_RESTORED}Unknown Network Device.")
    renamed = [
        replace(one, host_dev_name=names.get(one.iface_id, one.host_dev_name)) for one in interfaces
    ]
    return replace(resources, network_interfaces=tuple(renamed))


def _restore_vsock(machine: Machine, override: bodies.VsockOverride | None) -> None:
    vsock = machine.resources.vsock
    if vsock is None and override is not None:
        raise Fault(f"{NOT_RESTORED}Unknown Vsock Device.")
    if vsock is None:
        return
    if override is not None:
        vsock = replace(vsock, uds_path=override.uds_path)
    bind_vsock(machine, vsock, NOT_RESTORED + "Failed to build microVM from snapshot: {}")


def _read_state(path: str) -> Resources:
    state = _read(path, NO_STATE + "Failed to open snapshot file: {}")
    if not state.startswith(MAGIC):
        raise Fault(f"{NO_STATE}Failed to load snapshot state from file: Invalid magic value")
    try:
        return read_body(Resources, state.removeprefix(MAGIC))
    except Misread as misread:
        raise Fault(f"{NO_STATE}Failed to load snapshot state from file: {misread}") from None


def _read(path: str, refusal: str, *, limit: int = -1) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return file.read(limit)
    except OSError as error:
        raise Fault(refusal.format(system_reason(error))) from None


def _write(path: str, what: str, content: bytes, *, size: int | None = None) -> None:
    try:
        with Path(path).open("wb") as file:
            file.write(content)
            file.truncate(size)
    except OSError as error:
        raise Fault(NOT_SAVED.format(what, system_reason(error))) from None
