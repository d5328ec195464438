"""The balloon, its statistics and free page hinting; memory hotplug."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from generated_vmm.testing import SimulatedMonitor
from tests.vmm.simulator.caller import Caller, shows
from tests.vmm.simulator.conftest import MakeMonitor

NOT_FOUND = "Failed perform action on device: Device not found"
Start = Callable[[], None]
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


@pytest.fixture
def balloon(call: Caller, start: Start) -> None:
    """A running guest with everything a balloon can do."""
    body = {"amount_mib": 10, "deflate_on_oom": True, "stats_polling_interval_s": 1}
    call.accepted("PUT", "/balloon", body | {"free_page_hinting": True})
    start()


def test_a_balloon_shows_its_defaults(call: Caller) -> None:
    call.accepted("PUT", "/balloon", {"amount_mib": 128, "deflate_on_oom": False})
    expected = {
        "amount_mib": 128,
        "deflate_on_oom": False,
        "stats_polling_interval_s": 0,
        "free_page_hinting": False,
        "free_page_reporting": False,
    }
    assert shows(call.get("/balloon"), expected)
    assert shows(call.get("/vm/config")["balloon"], expected)


@pytest.mark.usefixtures("balloon")
def test_statistics_have_sizes_and_what_the_guest_reports(
    call: Caller, monitor: SimulatedMonitor
) -> None:
    sizes = {"target_pages": 2560, "actual_pages": 2560, "target_mib": 10, "actual_mib": 10}
    assert call.get("/balloon/statistics") == sizes
    monitor.guest.balloon_statistics = {"free_memory": 5}
    call.accepted("PATCH", "/balloon", {"amount_mib": 20})
    statistics = call.get("/balloon/statistics")
    assert (statistics["target_mib"], statistics["free_memory"]) == (20, 5)


@pytest.mark.usefixtures("balloon")
def test_the_polling_interval_changes_but_is_not_switched_off(call: Caller) -> None:
    call.accepted("PATCH", "/balloon/statistics", {"stats_polling_interval_s": 9})
    assert call.get("/balloon")["stats_polling_interval_s"] == 9
    assert call("PATCH", "/balloon/statistics", {"stats_polling_interval_s": 0}).fault == (
        "Balloon update error: Balloon: Statistics cannot be enabled/disabled after activation."
    )


@pytest.mark.usefixtures("balloon")
def test_hinting_runs_end_at_once_and_are_numbered(call: Caller) -> None:
    assert call.get("/balloon/hinting/status") == {"host_cmd": 0, "guest_cmd": None}
    call.accepted("PATCH", "/balloon/hinting/start")
    assert call.get("/balloon/hinting/status") == {"host_cmd": 1, "guest_cmd": 0}
    call.accepted("PATCH", "/balloon/hinting/stop")
    assert call.get("/balloon/hinting/status")["host_cmd"] == 1
    call.accepted("PATCH", "/balloon/hinting/start", {"acknowledge_on_stop": False, "more": 1})
    assert call.get("/balloon/hinting/status")["host_cmd"] == 3


class TestMemoryHotplug:
    def test_what_the_guest_was_asked_for_is_plugged(self, call: Caller, start: Start) -> None:
        call.accepted("PUT", "/hotplug/memory", {"total_size_mib": 1024})
        start()
        call.accepted("PATCH", "/hotplug/memory", {"requested_size_mib": 512})
        assert call.get("/hotplug/memory") == {
            "block_size_mib": 2,
            "total_size_mib": 1024,
            "slot_size_mib": 128,
            "plugged_size_mib": 512,
            "requested_size_mib": 512,
        }


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
