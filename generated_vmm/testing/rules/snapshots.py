"""Snapshots: two files from which another simulated monitor can continue."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

from generated_vmm.testing.bodies import Misread, json_bytes
from generated_vmm.testing.host import connect_once, open_once, refusing, size_of
from generated_vmm.testing.machine import MIB, Fault, Machine, Members, Phase
from generated_vmm.testing.rule import Call, action, check, early_check
from generated_vmm.testing.rules.devices import (
    BACKING_FILE,
    require_backing_file,
    require_tap,
)
from generated_vmm.testing.rules.services import bind_vsock

WRITTEN: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC
MAGIC: Final = b"generated_vmm simulated snapshot v2\n"
NOT_RESTORED: Final = "Load snapshot error: Failed to restore from snapshot: "
NO_STATE: Final = f"{NOT_RESTORED}Failed to get snapshot state from file: "
NO_MEMORY: Final = f"{NOT_RESTORED}Failed to load guest memory: Error creating guest memory from "
NO_DEVICES: Final = (
    f"{NOT_RESTORED}Failed to build microVM from snapshot: Failed to restore devices: "
    "Error restoring MMIO devices: "
)


@check("PUT /snapshot/create")
def require_paused(machine: Machine) -> None:
    """Refuse to save a running guest."""
    if machine.phase is not Phase.PAUSED:
        raise Fault(
            "Create snapshot error: Cannot save the microVM state: "
            "Operation not allowed: save/restore unavailable while running"
        )


@action("PUT /snapshot/create")
def create_snapshot(machine: Machine, call: Call) -> None:
    """Write the state, and a memory file as large as the memory with hotpluggable memory."""
    shown = {path for path, _ in machine.options.description.shown.values()}
    saved = {path: machine.resources[path] for path in shown & machine.resources.keys()}
    state = MAGIC + json_bytes({"drivers_up": machine.drivers_up, "resources": saved})
    size = machine.memory_mib * MIB
    _write(call.body.get("snapshot_path"), "snapshot", state)
    _write(call.body.get("mem_file_path"), "memory", b"", size=size)


def _write(path: str | None, what: str, content: bytes, *, size: int | None = None) -> None:
    refusal = f"Create snapshot error: Cannot perform open on the {what} backing file: {{}}"
    if path is not None:
        with refusing(refusal), open(os.open(path, WRITTEN, 0o644), "wb") as file:
            file.write(content)
            file.truncate(size)


@early_check("PUT /snapshot/load")
def require_one_memory(mem_backend: Members | None, mem_file_path: str | None) -> None:
    """Refuse a load with no memory file, or with two."""
    either = "either `mem_backend` or `mem_file_path`"
    if mem_backend is not None and mem_file_path is not None:
        raise Misread(f"too many fields: {either} exclusively is required")
    if mem_backend is None and mem_file_path is None:
        raise Misread(f"missing field: {either} is required")


@action("PUT /snapshot/load")
def load_snapshot(machine: Machine, call: Call, snapshot_path: str) -> None:
    """Restore the guest on a fresh process; the process ends if that fails."""
    if machine.is_configured:
        raise Fault(
            "Load snapshot error: Loading a microVM snapshot not allowed after configuring "
            "boot-specific resources."
        )
    try:
        _restore(machine, snapshot_path, call.body)
    except Fault:
        machine.exit_code = 1
        raise


def _restore(machine: Machine, path: str, body: Members) -> None:
    state = _read_state(path)
    resources: dict[str, Any] = state["resources"]
    _override(resources, body)
    tracks = body.get("track_dirty_pages") or body.get("enable_diff_snapshots")
    if "track_dirty_pages" in resources.get("/machine-config", {}):
        resources["/machine-config"]["track_dirty_pages"] = bool(tracks)
    machine.resources |= resources
    _require_memory(machine, body)
    _require_devices(machine)
    phase = Phase.RUNNING if body.get("resume_vm") else Phase.PAUSED
    machine.restore(phase, drivers_up=state["drivers_up"])


def _override(resources: dict[str, Any], body: Members) -> None:
    interfaces: dict[str, Members] = resources.get("/network-interfaces") or {}
    for override in body.get("network_overrides") or []:
        name = override.get("iface_id")
        if name is not None and name not in interfaces:
            raise Fault(f"{NO_STATE}Unknown Network Device.")
        interfaces.get(name, {}).update(override)
    vsock = resources.get("/vsock")
    if body.get("vsock_override") is not None:
        if vsock is None:
            raise Fault(f"{NO_STATE}Unknown Vsock Device.")
        vsock |= body["vsock_override"]


def _require_memory(machine: Machine, body: Members) -> None:
    backend = body.get("mem_backend") or {}
    path = backend.get("backend_path") or body.get("mem_file_path")
    if path is None:
        return
    if backend.get("backend_type") == "Uffd":
        with refusing(f"{NO_MEMORY}uffd: Failed to connect to UDS Unix stream: {{}}"):
            connect_once(path)
        return
    with refusing(f"{NO_MEMORY}file: Failed to load guest memory: {{}}"):
        open_once(path)
    if os.path.isdir(path) or size_of(path) < machine.memory_mib * MIB:
        raise Fault(
            f"{NO_MEMORY}file: Failed to restore guest memory: "
            "Total sum of memory regions exceeds largest possible file offset"
        )


def _require_devices(machine: Machine) -> None:
    """Refuse if a file, tap device or vsock path of a device cannot be used."""
    for drive in machine.devices("/drives").values():
        refusal = f"{NO_DEVICES}Block: {BACKING_FILE}{drive.get('path_on_host')}"
        require_backing_file(machine, drive, refusal)
    for interface in machine.devices("/network-interfaces").values():
        refusal = f"{NO_DEVICES}Net: Failed to create a network device: "
        require_tap(machine, [], interface.get("host_dev_name", ""), refusal)
    path = machine.value("/vsock", "uds_path")
    if path is not None:
        bind_vsock(machine, path, f"{NO_DEVICES}VsockUnixBackend: ")


def _read_state(path: str) -> dict[str, Any]:
    with refusing(f"{NO_STATE}Failed to open snapshot file: {{}}"):
        open_once(path)
    broken = f"{NO_STATE}Failed to load snapshot state from file: "
    with refusing(f"{broken}IO Error: {{}}"):
        # Reading a pipe or a device might never end.
        state = Path(path).read_bytes() if Path(path).is_file() or os.path.isdir(path) else b""
    if not state.startswith(MAGIC):
        raise Fault(f"{broken}Invalid magic value")
    with refusing(f"{broken}{{}}"):
        read: dict[str, Any] = json.loads(state.removeprefix(MAGIC))
    return read
