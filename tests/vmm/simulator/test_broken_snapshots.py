"""Snapshots that cannot be loaded, and what is said of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from generated_vmm.testing import SimulatedMonitor
from tests.vmm.simulator.caller import Caller
from tests.vmm.simulator.saved import files as files
from tests.vmm.simulator.saved import fresh as fresh
from tests.vmm.simulator.saved import load
from tests.vmm.simulator.saved import paused as paused
from tests.vmm.simulator.saved import saved as saved

NOT_RESTORED = "Load snapshot error: Failed to restore from snapshot: "


NO_STATE = f"{NOT_RESTORED}Failed to get snapshot state from file: "


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (
            {"snapshot_path": "/no/state"},
            f"{NOT_RESTORED}Failed to get snapshot state from file: Failed to open snapshot file: "
            "No such file or directory (os error 2)",
        ),
        (
            {"mem_backend": {"backend_path": "/no/memory", "backend_type": "File"}},
            f"{NOT_RESTORED}Failed to load guest memory: Error creating guest memory from file: "
            "Failed to load guest memory: No such file or directory (os error 2)",
        ),
        (
            {"network_overrides": [{"iface_id": "eth9", "host_dev_name": "tap9"}]},
            f"{NO_STATE}Unknown Network Device.",
        ),
    ],
)
def test_a_failed_load_is_answered_and_ends_the_process(
    saved: dict[str, str], fresh: SimulatedMonitor, change: dict[str, object], fault: str
) -> None:
    call = Caller(fresh.socket_path)
    reply = call("PUT", "/snapshot/load", load(saved) | change)
    assert (reply.status, reply.fault) == (400, fault)
    assert fresh.exit_code == 1
    with pytest.raises(ConnectionRefusedError):
        call("GET", "/")


def test_a_snapshot_without_a_vsock_has_none_to_move(
    call: Caller, kernel: str, files: dict[str, str], fresh: SimulatedMonitor
) -> None:
    call.accepted("PUT", "/boot-source", {"kernel_image_path": kernel})
    call.accepted("PUT", "/actions", {"action_type": "InstanceStart"})
    call.accepted("PATCH", "/vm", {"state": "Paused"})
    call.accepted("PUT", "/snapshot/create", files)
    body = load(files, vsock_override={"uds_path": "v"})
    assert Caller(fresh.socket_path)("PUT", "/snapshot/load", body).fault == (
        f"{NO_STATE}Unknown Vsock Device."
    )


def test_a_snapshot_cut_short_cannot_be_loaded(
    saved: dict[str, str], fresh: SimulatedMonitor
) -> None:
    state = Path(saved["snapshot_path"])
    state.write_bytes(state.read_bytes()[:-5])
    fault = Caller(fresh.socket_path)("PUT", "/snapshot/load", load(saved)).fault
    assert "Failed to load snapshot state from file: " in fault


def test_a_vsock_path_that_is_taken_cannot_be_restored(
    paused: Caller, files: dict[str, str], fresh: SimulatedMonitor
) -> None:
    paused.accepted("PUT", "/snapshot/create", files)
    fault = Caller(fresh.socket_path)("PUT", "/snapshot/load", load(files)).fault
    assert "Error binding to the host-side Unix socket: Address already in use" in fault


def test_a_file_that_is_no_snapshot_cannot_be_loaded(
    fresh: SimulatedMonitor, disk: str, files: dict[str, str]
) -> None:
    reply = Caller(fresh.socket_path)(
        "PUT", "/snapshot/load", load(files | {"snapshot_path": disk})
    )
    assert "Failed to load snapshot state from file" in reply.fault


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            {"mem_file_path": "m", "mem_backend": {"backend_path": "m", "backend_type": "File"}},
            "too many fields: either `mem_backend` or `mem_file_path` exclusively is required",
        ),
        ({}, "missing field: either `mem_backend` or `mem_file_path` is required"),
    ],
)
def test_a_load_names_one_memory(call: Caller, body: dict[str, object], reason: str) -> None:
    assert call("PUT", "/snapshot/load", {"snapshot_path": "s"} | body).fault == (
        f"An error occurred when deserializing the json body of a request: {reason}."
    )


def test_a_memory_file_that_is_too_small_cannot_be_loaded(
    saved: dict[str, str], fresh: SimulatedMonitor
) -> None:
    os.truncate(saved["mem_file_path"], 1 << 20)
    fault = Caller(fresh.socket_path)("PUT", "/snapshot/load", load(saved)).fault
    assert fault.endswith("Total sum of memory regions exceeds largest possible file offset")
    assert fresh.exit_code == 1


@pytest.mark.parametrize("what", ["snapshot_path", "mem_file_path"])
def test_a_pipe_blocks_nobody(
    paused: Caller, files: dict[str, str], fresh: SimulatedMonitor, folder: Path, what: str
) -> None:
    os.mkfifo(folder / "pipe")
    named = files | {what: str(folder / "pipe")}
    assert paused("PUT", "/snapshot/create", named).status == 400
    assert Caller(fresh.socket_path)("PUT", "/snapshot/load", load(named)).status == 400
