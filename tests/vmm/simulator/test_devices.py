"""Drives, network interfaces, pmem, the balloon and hotplug: what is shown of them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from generated_vmm.testing import SimulatedMonitor
from tests.vmm.simulator.caller import Caller, shows
from tests.vmm.simulator.conftest import MakeMonitor, Start

BUCKET = {"size": 1, "one_time_burst": 2, "refill_time": 3}
OTHER = {"size": 3, "one_time_burst": None, "refill_time": 4}


KEYS = {"drives": "drive_id", "pmem": "id", "network-interfaces": "iface_id"}


def put(call: Caller, kind: str, name: str, **body: object) -> None:
    usual: dict[str, dict[str, object]] = {
        "drives": {"is_root_device": False},
        "pmem": {"path_on_host": __file__, "read_only": True},
        "network-interfaces": {"host_dev_name": f"tap_{name}"},
    }
    call.accepted("PUT", f"/{kind}/{name}", {KEYS[kind]: name, **usual[kind], **body})


def devices(call: Caller, kind: str) -> list[dict[str, Any]]:
    listed: Any = call.get("/vm/config")[kind]
    return list(listed)


def names(call: Caller, kind: str) -> list[str]:
    return [one[KEYS[kind]] for one in devices(call, kind)]


class TestDrives:
    def test_a_drive_shows_its_defaults_and_nulls(self, call: Caller, disk: str) -> None:
        put(call, "drives", "rootfs", is_root_device=True, path_on_host=disk)
        drive = {
            "drive_id": "rootfs",
            "partuuid": None,
            "is_root_device": True,
            "cache_type": "Unsafe",
            "is_read_only": False,
            "path_on_host": disk,
            "rate_limiter": None,
            "io_engine": "Sync",
            "socket": None,
        }
        assert shows(devices(call, "drives"), [drive])

    def test_a_vhost_user_drive_shows_no_file(self, call: Caller, backend: str) -> None:
        put(call, "drives", "vub", socket=backend)
        (drive,) = devices(call, "drives")
        assert drive["socket"] == backend
        assert [drive[name] for name in ("path_on_host", "is_read_only", "io_engine")] == [None] * 3

    def test_the_root_device_comes_first(self, call: Caller, disk: str) -> None:
        put(call, "drives", "data", path_on_host=disk)
        put(call, "drives", "rootfs", is_root_device=True, path_on_host=disk)
        assert names(call, "drives") == ["rootfs", "data"]

    def test_a_known_id_is_replaced_in_its_place(self, call: Caller, disk: str) -> None:
        for name in ("a", "b", "a"):
            put(call, "drives", name, path_on_host=disk, is_read_only=bool(devices(call, "drives")))
        shown = [(drive["drive_id"], drive["is_read_only"]) for drive in devices(call, "drives")]
        assert shown == [("a", True), ("b", True)]

    def test_a_bucket_of_nothing_is_no_limit(self, call: Caller, disk: str) -> None:
        limiter = {
            "bandwidth": {"size": 0, "refill_time": 100},
            "ops": {"size": 5, "refill_time": 100, "one_time_burst": 0, "unknown": 1},
        }
        put(call, "drives", "a", path_on_host=disk, rate_limiter=limiter)
        assert devices(call, "drives")[0]["rate_limiter"] == {
            "bandwidth": None,
            "ops": {"size": 5, "one_time_burst": None, "refill_time": 100},
        }

    def test_a_running_guest_gets_other_files_and_limits(
        self, call: Caller, disk: str, kernel: str, backend: str, start: Start
    ) -> None:
        put(call, "drives", "a", path_on_host=disk, rate_limiter={"ops": BUCKET})
        put(call, "drives", "vub", socket=backend)
        start()
        call.accepted("PATCH", "/drives/a", {"drive_id": "a", "path_on_host": kernel})
        change = {"drive_id": "a", "rate_limiter": {"bandwidth": OTHER}}
        call.accepted("PATCH", "/drives/a", change)
        drive = devices(call, "drives")[0]
        assert drive["path_on_host"] == kernel
        assert drive["rate_limiter"] == {"bandwidth": OTHER, "ops": BUCKET}
        off = {"size": 0, "refill_time": 0}
        change = {"drive_id": "a", "rate_limiter": {"ops": off, "bandwidth": off}}
        call.accepted("PATCH", "/drives/a", change)
        assert devices(call, "drives")[0]["rate_limiter"] is None
        call.accepted("PATCH", "/drives/vub", {"drive_id": "vub"})


class TestNetworkInterfaces:
    def test_an_interface_shows_its_nulls(self, call: Caller) -> None:
        put(call, "network-interfaces", "eth0")
        interface = {
            "iface_id": "eth0",
            "host_dev_name": "tap_eth0",
            "guest_mac": None,
            "mtu": None,
            "rx_rate_limiter": None,
            "tx_rate_limiter": None,
        }
        assert shows(devices(call, "network-interfaces"), [interface])

    def test_a_tap_device_the_host_lacks_is_refused(self, make_monitor: MakeMonitor) -> None:
        call = Caller(make_monitor(host_devices={"tap_a"}).socket_path)
        put(call, "network-interfaces", "a")
        body = {"iface_id": "b", "host_dev_name": "tap9"}
        fault = call("PUT", "/network-interfaces/b", body).fault
        assert "Invalid TUN/TAP Backend provided by tap9." in fault

    def test_limits_of_a_running_guest_are_merged(self, call: Caller, start: Start) -> None:
        put(call, "network-interfaces", "a", rx_rate_limiter={"ops": BUCKET})
        start()
        change = {"iface_id": "a", "tx_rate_limiter": {"bandwidth": BUCKET}}
        call.accepted("PATCH", "/network-interfaces/a", change)
        (interface,) = devices(call, "network-interfaces")
        assert interface["rx_rate_limiter"] == {"bandwidth": None, "ops": BUCKET}
        assert interface["tx_rate_limiter"] == {"bandwidth": BUCKET, "ops": None}

    def test_a_replaced_one_moves_to_the_end_and_is_gone_when_it_is_refused(
        self, call: Caller
    ) -> None:
        for name in ("a", "b", "a"):
            put(call, "network-interfaces", name)
        assert names(call, "network-interfaces") == ["b", "a"]
        body = {"iface_id": "a", "host_dev_name": "tap_b"}
        assert "resource busy" in call("PUT", "/network-interfaces/a", body).fault
        assert names(call, "network-interfaces") == ["b"]

    def test_an_unnamed_one_gets_a_name(self, call: Caller) -> None:
        put(call, "network-interfaces", "c", host_dev_name="")
        assert devices(call, "network-interfaces")[0]["host_dev_name"].startswith("tap")


class TestPmem:
    def test_a_device_shows_its_defaults(self, call: Caller) -> None:
        put(call, "pmem", "p")
        device = {
            "id": "p",
            "path_on_host": __file__,
            "root_device": False,
            "read_only": True,
            "rate_limiter": None,
        }
        assert shows(devices(call, "pmem"), [device])

    def test_limits_of_a_running_guest_are_taken_but_not_shown(
        self, call: Caller, start: Start
    ) -> None:
        put(call, "pmem", "p")
        start()
        call.accepted("PATCH", "/pmem/p", {"id": "p", "rate_limiter": {"ops": BUCKET}})
        assert devices(call, "pmem")[0]["rate_limiter"] is None
        call.accepted("PATCH", "/pmem/unknown", {"id": "unknown"})


@pytest.mark.parametrize("kind", ["drives", "pmem", "network-interfaces"])
def test_with_pci_devices_come_and_go(make_monitor: MakeMonitor, kernel: str, kind: str) -> None:
    call = Caller(make_monitor(enable_pci=True).socket_path)
    more = {"path_on_host": "/dev/null"} if kind == "drives" else {}
    put(call, kind, "first", **more)
    call.accepted("PUT", "/boot-source", {"kernel_image_path": kernel})
    call.accepted("PUT", "/actions", {"action_type": "InstanceStart"})
    put(call, kind, "more", **more)
    assert sorted(names(call, kind)) == ["first", "more"]
    call.accepted("DELETE", f"/{kind}/first")
    assert names(call, kind) == ["more"]


# The balloon, its statistics and free page hinting; memory hotplug


NOT_FOUND = "Failed perform action on device: Device not found"
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
