"""Drives, network interfaces and pmem devices: what is shown of them before and after the start."""

from __future__ import annotations

from typing import Any

import pytest

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
