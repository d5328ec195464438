"""What a transcript cannot show of a machine: its end, absent members, other options, drivers."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from generated_vmm.testing import SimulatedMonitor
from tests.vmm.simulator.caller import Caller
from tests.vmm.simulator.conftest import MakeMonitor, Start


def test_a_tap_device_the_host_lacks_is_refused(make_monitor: MakeMonitor) -> None:
    call = Caller(make_monitor(host_devices={"tap_a"}).socket_path)
    call.accepted("PUT", "/network-interfaces/a", {"iface_id": "a", "host_dev_name": "tap_a"})
    body = {"iface_id": "b", "host_dev_name": "tap9"}
    fault = call("PUT", "/network-interfaces/b", body).fault
    assert "Invalid TUN/TAP Backend provided by tap9." in fault


def test_an_unnamed_interface_gets_a_name(call: Caller) -> None:
    call.accepted("PUT", "/network-interfaces/c", {"iface_id": "c", "host_dev_name": ""})
    (interface,) = cast(list[Any], call.get("/vm/config")["network-interfaces"])
    assert interface["host_dev_name"].startswith("tap")


# The balloon, its statistics and free page hinting; memory hotplug


NOT_UP = "Balloon update error: Balloon: Device not activated yet."
NEEDING_DRIVERS = [
    ("PATCH", "/balloon", {"amount_mib": 20}, NOT_UP),
    ("PATCH", "/balloon/hinting/start", {}, NOT_UP),
    ("PATCH", "/balloon/hinting/stop", None, NOT_UP),
    (
        "PATCH",
        "/hotplug/memory",
        {"requested_size_mib": 128},
        "Memory hotplug update error: Failed to create memory hotplug device: Device is not active",
    ),
]


def test_statistics_have_sizes_and_what_the_guest_reports(
    call: Caller, monitor: SimulatedMonitor, start: Start
) -> None:
    body = {"amount_mib": 10, "deflate_on_oom": True, "stats_polling_interval_s": 1}
    call.accepted("PUT", "/balloon", body)
    start()
    sizes = {"target_pages": 2560, "actual_pages": 2560, "target_mib": 10, "actual_mib": 10}
    assert call.get("/balloon/statistics") == sizes
    monitor.guest.balloon_statistics = {"free_memory": 5}
    call.accepted("PATCH", "/balloon", {"amount_mib": 20})
    statistics = call.get("/balloon/statistics")
    assert (statistics["target_mib"], statistics["free_memory"]) == (20, 5)


class TestBeforeTheDriversAreUp:
    """A guest that has been started and has not booted yet."""

    @pytest.fixture(autouse=True)
    def _booting(self, monitor: SimulatedMonitor, call: Caller, start: Start) -> None:
        monitor.guest.boot_seconds = None
        balloon = {"amount_mib": 10, "deflate_on_oom": True, "stats_polling_interval_s": 1}
        call.accepted("PUT", "/balloon", balloon | {"free_page_hinting": True})
        call.accepted("PUT", "/hotplug/memory", {"total_size_mib": 1024})
        start()

    @pytest.mark.parametrize(("method", "path", "body", "fault"), NEEDING_DRIVERS)
    def test_what_needs_a_driver_is_refused(
        self,
        monitor: SimulatedMonitor,
        call: Caller,
        method: str,
        path: str,
        body: object,
        fault: str,
    ) -> None:
        assert call(method, path, body).fault == fault
        monitor.finish_boot()
        call.accepted(method, path, body)

    def test_what_the_monitor_knows_itself_is_shown_and_set(self, call: Caller) -> None:
        assert call.get("/balloon/statistics")["actual_mib"] == 0
        call.accepted("PATCH", "/balloon/statistics", {"stats_polling_interval_s": 2})
        assert call.get("/balloon/hinting/status") == {"host_cmd": 0, "guest_cmd": None}
        assert call.get("/hotplug/memory")["plugged_size_mib"] == 0

    def test_the_balloon_takes_what_it_was_given_as_soon_as_it_can(
        self, monitor: SimulatedMonitor, call: Caller
    ) -> None:
        monitor.finish_boot()
        assert call.get("/balloon/statistics")["actual_mib"] == 10

    def test_a_paused_guest_boots_no_further(self, monitor: SimulatedMonitor, call: Caller) -> None:
        call.accepted("PATCH", "/vm", {"state": "Paused"})
        monitor.finish_boot()
        assert "not activated" in call("PATCH", "/balloon", {"amount_mib": 1}).fault
        call.accepted("PATCH", "/vm", {"state": "Resumed"})
        call.accepted("PATCH", "/balloon", {"amount_mib": 1})

    def test_a_snapshot_knows_whether_they_are_up(
        self, call: Caller, make_monitor: MakeMonitor, folder: Path
    ) -> None:
        call.accepted("PATCH", "/vm", {"state": "Paused"})
        state, memory = str(folder / "state"), str(folder / "memory")
        call.accepted("PUT", "/snapshot/create", {"snapshot_path": state, "mem_file_path": memory})
        restored = make_monitor()
        restored.guest.boot_seconds = None
        backend = {"backend_path": memory, "backend_type": "File"}
        body = {"snapshot_path": state, "mem_backend": backend, "resume_vm": True}
        ask = Caller(restored.socket_path)
        ask.accepted("PUT", "/snapshot/load", body)
        assert "not activated" in ask("PATCH", "/balloon", {"amount_mib": 1}).fault


def test_the_drivers_are_up_after_the_boot(folder: Path, kernel: str) -> None:
    with SimulatedMonitor(folder / "api.socket") as monitor:
        monitor.guest.boot_seconds = 0.05
        call = Caller(monitor.socket_path)
        call.accepted("PUT", "/balloon", {"amount_mib": 10, "deflate_on_oom": True})
        call.accepted("PUT", "/boot-source", {"kernel_image_path": kernel})
        call.accepted("PUT", "/actions", {"action_type": "InstanceStart"})
        while call("PATCH", "/balloon", {"amount_mib": 1}).status == 400:
            time.sleep(0.01)
        assert call.get("/balloon")["amount_mib"] == 1


# Boot source, machine configuration, start, pause, resume, end


def act(action_type: str) -> tuple[str, str, object]:
    return "PUT", "/actions", {"action_type": action_type}


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


VALID = {"vcpu_count": 2, "mem_size_mib": 256}


def test_a_template_stays_until_another_one_or_none_is_named(call: Caller) -> None:
    call.accepted("PUT", "/machine-config", VALID | {"cpu_template": "T2"})
    call.accepted("PUT", "/machine-config", VALID)
    assert call.get("/machine-config")["cpu_template"] == "T2"
    call.accepted("PATCH", "/machine-config", {"cpu_template": "None"})
    assert "cpu_template" not in call.get("/machine-config")


def test_a_custom_template_takes_the_place_of_a_static_one(call: Caller) -> None:
    call.accepted("PUT", "/machine-config", VALID | {"cpu_template": "T2"})
    modifiers = [{"register": "eax", "bitmap": "0b1x_0"}]
    leaf = {"leaf": "0x1", "subleaf": "0b0", "flags": 0, "modifiers": modifiers}
    msr = {"addr": "0x10a", "bitmap": "xx"}
    call.accepted(
        "PUT",
        "/cpu-config",
        {"kvm_capabilities": ["!121"], "cpuid_modifiers": [leaf], "msr_modifiers": [msr]},
    )
    assert "cpu_template" not in call.get("/machine-config")
    assert call.get("/vm/config")["cpu-config"] is None
