"""Boot source, start, pause, resume, end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from generated_vmm import API_VERSION
from generated_vmm.testing import SimulatedMonitor
from tests.vmm.simulator.caller import Caller
from tests.vmm.simulator.conftest import MakeMonitor


def act(action_type: str) -> tuple[str, str, object]:
    return "PUT", "/actions", {"action_type": action_type}


def test_a_fresh_monitor_describes_itself(call: Caller) -> None:
    assert call.get("/") == {
        "id": "anonymous-instance",
        "state": "Not started",
        "vmm_version": API_VERSION,
        "app_name": "Firecracker",
    }
    assert call.get("/version") == {"firecracker_version": API_VERSION}


def test_start_pause_and_resume_show_in_the_state(call: Caller, start: Callable[[], None]) -> None:
    start()
    assert call.get("/")["state"] == "Running"
    call.accepted("PATCH", "/vm", {"state": "Paused"})
    assert call.get("/")["state"] == "Paused"
    call.accepted("PATCH", "/vm", {"state": "Resumed"})
    assert call.get("/")["state"] == "Running"


@pytest.mark.parametrize(("state", "shown"), [("Paused", "Paused"), ("Resumed", "Running")])
def test_the_same_state_twice_is_accepted(
    call: Caller, start: Callable[[], None], state: str, shown: str
) -> None:
    start()
    call.accepted("PATCH", "/vm", {"state": state})
    call.accepted("PATCH", "/vm", {"state": state})
    assert call.get("/")["state"] == shown


def test_a_start_without_a_kernel_is_refused_and_can_be_mended(
    call: Caller, start: Callable[[], None]
) -> None:
    reply = call(*act("InstanceStart"))
    assert (reply.status, reply.fault) == (
        400,
        "Start microvm error: Cannot start microvm without kernel configuration.",
    )
    assert call.get("/")["state"] == "Not started"
    start()
    assert call.get("/")["state"] == "Running"


def test_a_refused_boot_source_leaves_the_one_there_was(call: Caller, folder: Path) -> None:
    missing = str(folder / "nothing")
    reply = call("PUT", "/boot-source", {"kernel_image_path": missing})
    assert (reply.status, reply.fault) == (
        400,
        "Boot source error: The kernel file cannot be opened: "
        "No such file or directory (os error 2)",
    )
    assert call.get("/vm/config")["boot-source"] == {
        "kernel_image_path": "",
        "initrd_path": None,
        "boot_args": None,
    }


def test_a_missing_initrd_is_refused(call: Caller, kernel: str, folder: Path) -> None:
    body = {"kernel_image_path": kernel, "initrd_path": str(folder / "nothing")}
    assert call("PUT", "/boot-source", body).fault == (
        "Boot source error: The initrd file cannot be opened due to invalid path or "
        "invalid permissions. No such file or directory (os error 2)"
    )


def test_a_guest_told_to_reboot_ends_the_process(
    monitor: SimulatedMonitor, call: Caller, start: Callable[[], None]
) -> None:
    start()
    call.accepted(*act("SendCtrlAltDel"))
    assert monitor.exit_code == 0
    with pytest.raises(ConnectionRefusedError):
        call("GET", "/")
    assert monitor.socket_path.exists()


def test_a_paused_guest_reboots_when_it_goes_on(
    monitor: SimulatedMonitor, call: Caller, start: Callable[[], None]
) -> None:
    start()
    call.accepted("PATCH", "/vm", {"state": "Paused"})
    call.accepted(*act("SendCtrlAltDel"))
    assert monitor.exit_code is None
    call.accepted("PATCH", "/vm", {"state": "Resumed"})
    assert monitor.exit_code == 0


def test_metrics_are_flushed_even_without_a_place_for_them(
    call: Caller, start: Callable[[], None]
) -> None:
    start()
    call.accepted(*act("FlushMetrics"))


def test_every_path_will_do_when_files_are_not_checked(
    make_monitor: MakeMonitor,
) -> None:
    call = Caller(make_monitor(check_files=False).socket_path)
    call.accepted("PUT", "/boot-source", {"kernel_image_path": "/no/vmlinux"})
    drive = {"drive_id": "rootfs", "is_root_device": True, "path_on_host": "/no/rootfs"}
    call.accepted("PUT", "/drives/rootfs", drive)
    call.accepted(*act("InstanceStart"))


class TestStart:
    """What only the start finds out, in the order in which the monitor looks."""

    def fault_of_start(self, call: Caller, kernel: str, **source: object) -> str:
        call.accepted("PUT", "/boot-source", {"kernel_image_path": kernel, **source})
        fault = call(*act("InstanceStart")).fault
        assert call.get("/")["state"] == "Not started"
        return fault.removeprefix("Start microvm error: ")

    @pytest.mark.parametrize(
        ("size", "said"),
        [
            (0, "Cannot load initrd due to an invalid memory configuration.."),
            (129 << 20, "Failed to compute the initrd address.."),
        ],
    )
    def test_an_initrd_must_fit(
        self, call: Caller, kernel: str, folder: Path, size: int, said: str
    ) -> None:
        with (folder / "initrd").open("wb") as file:
            file.truncate(size)
        fault = self.fault_of_start(call, kernel, initrd_path=str(folder / "initrd"))
        assert fault == f"Error with initrd initialization: {said}"

    def test_a_folder_is_no_initrd(self, call: Caller, kernel: str, folder: Path) -> None:
        assert "Is a directory" in self.fault_of_start(call, kernel, initrd_path=str(folder))

    def test_more_memory_than_a_process_has_addresses_for(self, call: Caller, kernel: str) -> None:
        call.accepted("PUT", "/machine-config", {"vcpu_count": 1, "mem_size_mib": 2**64 - 1})
        assert "Cannot create mmap region" in self.fault_of_start(call, kernel)
        call.accepted("PATCH", "/machine-config", {"mem_size_mib": 128})
        call.accepted(*act("InstanceStart"))

    @pytest.mark.parametrize("size", [2**20, 2**44])
    def test_more_hotplug_memory_than_there_are_addresses(
        self, call: Caller, kernel: str, size: int
    ) -> None:
        if call("PUT", "/hotplug/memory", {"total_size_mib": size}).status == 204:
            assert "Failed to allocate guest resource" in self.fault_of_start(call, kernel)
