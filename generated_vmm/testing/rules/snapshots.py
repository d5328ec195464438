"""Snapshots: two files that another simulated monitor can go on from."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from generated_vmm.testing.bodies.json_text import Misread, json_bytes
from generated_vmm.testing.bodies.shapes import fill
from generated_vmm.testing.machine import Fault, Machine, Members, Phase
from generated_vmm.testing.rule import Call, rule
from generated_vmm.testing.rules.drives import BACKING_FILE
from generated_vmm.testing.rules.host_files import (
    connect_fault,
    is_directory,
    open_fault,
    require_file,
    size_of,
    system_reason,
)
from generated_vmm.testing.rules.network import require_tap
from generated_vmm.testing.rules.outlets import bind_vsock

BYTES_PER_MIB: Final = 1 << 20
WRITTEN: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC
SNAPSHOT_VERSION: Final = "v2.0.0"
MAGIC: Final = f"generated_vmm simulated snapshot {SNAPSHOT_VERSION}\n".encode()
NOT_SAVED: Final = "Create snapshot error: Cannot perform open on the {} backing file: {}"
NOT_RESTORED: Final = "Load snapshot error: Failed to restore from snapshot: "
NO_STATE: Final = f"{NOT_RESTORED}Failed to get snapshot state from file: "
NO_MEMORY: Final = f"{NOT_RESTORED}Failed to load guest memory: Error creating guest memory from "
NO_DEVICES: Final = (
    f"{NOT_RESTORED}Failed to build microVM from snapshot: Failed to restore devices: "
    "Error restoring MMIO devices: "
)
NO_NET_DEVICE: Final = "Net: Failed to create a network device: "


@rule("PUT /snapshot/create")
def create_snapshot(machine: Machine, call: Call) -> None:
    """Only while paused; the memory file is as large as the memory with what can be plugged."""
    if machine.phase is not Phase.PAUSED:
        raise Fault(
            "Create snapshot error: Cannot save the microVM state: "
            "Operation not allowed: save/restore unavailable while running"
        )
    state = MAGIC + json_bytes(machine.config)
    _write(call.body["snapshot_path"], "snapshot", state)
    _write(call.body["mem_file_path"], "memory", b"", size=machine.memory_mib * BYTES_PER_MIB)


@rule("PUT /snapshot/load")
def load_snapshot(machine: Machine, call: Call) -> None:
    """Only on a fresh process, which ends when it cannot be done."""
    if machine.boot_path_configured:
        raise Fault(
            "Load snapshot error: Loading a microVM snapshot not allowed after configuring "
            "boot-specific resources."
        )
    try:
        _restore(machine, call.body)
    except Fault:
        machine.exit_code = 1
        raise


def require_one_memory(body: Members) -> None:
    """Refuse a load with no memory to load, or with two. Raises `Misread`."""
    backends = [body[name] is not None for name in ("mem_backend", "mem_file_path")]
    if all(backends):
        raise Misread(
            "too many fields: either `mem_backend` or `mem_file_path` exclusively is required"
        )
    if not any(backends):
        raise Misread("missing field: either `mem_backend` or `mem_file_path` is required")


def _restore(machine: Machine, body: Members) -> None:
    config = _read_state(body["snapshot_path"])
    _override_taps(config, body.get("network_overrides") or [])
    override = body.get("vsock_override")
    if override is not None and config.get("vsock") is None:
        raise Fault(f"{NO_STATE}Unknown Vsock Device.")
    tracks = body.get("track_dirty_pages") or body["enable_diff_snapshots"]
    config["machine-config"]["track_dirty_pages"] = bool(tracks)
    machine.config = config
    _require_memory(machine, body)
    _require_devices(machine)
    if config.get("vsock") is not None:
        bind_vsock(machine, config["vsock"] | (override or {}), f"{NO_DEVICES}VsockUnixBackend: ")
    machine.run_guest(Phase.RUNNING if body["resume_vm"] else Phase.PAUSED)


def _require_memory(machine: Machine, body: Members) -> None:
    backend = body["mem_backend"] or {"backend_path": body["mem_file_path"]}
    path = backend["backend_path"]
    if backend.get("backend_type") == "Uffd":
        reason = connect_fault(path)
        if reason:
            unreachable = f"uffd: Failed to connect to UDS Unix stream: {reason}"
            raise Fault(f"{NO_MEMORY}{unreachable}")
        return
    reason = open_fault(path)
    if reason:
        raise Fault(f"{NO_MEMORY}file: Failed to load guest memory: {reason}")
    if is_directory(path) or size_of(path) < machine.memory_mib * BYTES_PER_MIB:
        raise Fault(
            f"{NO_MEMORY}file: Failed to restore guest memory: "
            "Total sum of memory regions exceeds largest possible file offset"
        )


def _require_devices(machine: Machine) -> None:
    """Refuse when a file or tap device is gone that the snapshot's devices use."""
    for drive in machine.devices("drives"):
        path = drive["path_on_host"]
        if path is not None:
            refusal = f"{NO_DEVICES}Block: {BACKING_FILE}{path}"
            require_file(machine.options, path, refusal, writable=not drive["is_read_only"])
    for interface in machine.devices("network-interfaces"):
        require_tap(machine, [], interface["host_dev_name"], f"{NO_DEVICES}{NO_NET_DEVICE}")


def _override_taps(config: Members, overrides: list[Members]) -> None:
    interfaces = {one["iface_id"]: one for one in config.get("network-interfaces", [])}
    for override in overrides:
        if override["iface_id"] not in interfaces:
            raise Fault(f"{NO_STATE}Unknown Network Device.")
        interfaces[override["iface_id"]]["host_dev_name"] = override["host_dev_name"]


def is_snapshot(path: str) -> bool:
    """Whether the file is the state of a simulated machine."""
    with Path(path).open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def _read_state(path: str) -> Members:
    broken = f"{NO_STATE}Failed to load snapshot state from file: "
    reason = open_fault(path)
    if reason:
        raise Fault(f"{NO_STATE}Failed to open snapshot file: {reason}")
    try:
        # A pipe or a device might never end.
        state = b"" if Path(path).exists() and not Path(path).is_file() else Path(path).read_bytes()
        if not state.startswith(MAGIC):
            raise ValueError("Invalid magic value")
        config = fill("FullVmConfiguration", json.loads(state.removeprefix(MAGIC)))
    except OSError as error:
        raise Fault(f"{broken}IO Error: {system_reason(error)}") from None
    except (Misread, ValueError, RecursionError) as error:
        raise Fault(f"{broken}{error}") from None
    assert isinstance(config, dict)
    return config


def _write(path: str, what: str, content: bytes, *, size: int | None = None) -> None:
    try:
        with open(os.open(path, WRITTEN, 0o644), "wb") as file:
            file.write(content)
            file.truncate(size)
    except (OSError, ValueError) as error:
        raise Fault(NOT_SAVED.format(what, system_reason(error))) from None
