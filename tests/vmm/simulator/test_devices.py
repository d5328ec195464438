"""Ids, network interfaces and pmem devices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from generated_vmm.testing.description import Json
from tests.vmm.simulator.caller import Caller, shows
from tests.vmm.simulator.conftest import MakeMonitor

TAP = "Network config error: Could not create the network device: "


def shown(call: Caller, key: str) -> Json:
    return call.get("/vm/config")[key]


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("/drives", "The ID cannot be empty."),
        ("/drives/", "The ID cannot be empty."),
        ("/drives//", "The ID cannot be empty."),
        (
            "/drives/a-b",
            "API Resource IDs can only contain alphanumeric characters and underscores.",
        ),
        (
            "/pmem/a%20b",
            "API Resource IDs can only contain alphanumeric characters and underscores.",
        ),
    ],
)
def test_an_id_the_monitor_cannot_use_is_refused_before_the_body_is_read(
    call: Caller, path: str, fault: str
) -> None:
    assert call("PUT", path, "no JSON at all").fault == fault


def test_the_body_must_repeat_the_id(call: Caller, disk: str) -> None:
    mismatch = "The id from the path does not match the id from the body!"
    drive = {"drive_id": "b", "is_root_device": False, "path_on_host": disk}
    assert call("PUT", "/drives/a", drive).fault == mismatch
    assert call("PATCH", "/pmem/a", {"id": "b"}).fault == mismatch
    assert call("PUT", "/network-interfaces/a", {"iface_id": "b", "host_dev_name": "t"}).fault == (
        "The id from the path [a] does not match the id from the body [b]!"
    )


class TestNetworkInterfaces:
    def test_an_interface_shows_its_nulls(self, call: Caller) -> None:
        call.accepted(
            "PUT", "/network-interfaces/eth0", {"iface_id": "eth0", "host_dev_name": "tap0"}
        )
        assert shows(
            shown(call, "network-interfaces"),
            [
                {
                    "iface_id": "eth0",
                    "host_dev_name": "tap0",
                    "guest_mac": None,
                    "mtu": None,
                    "rx_rate_limiter": None,
                    "tx_rate_limiter": None,
                }
            ],
        )

    @pytest.mark.parametrize(
        ("change", "fault"),
        [
            (
                {"guest_mac": "06:00:00:00:00:01"},
                "Network config error: The MAC address is already in use: 06:00:00:00:00:01",
            ),
            ({"mtu": 67}, f"{TAP}MTU 67 is out of range [68, 65535]"),
            (
                {"host_dev_name": "tap0"},
                f"{TAP}Open tap device failed: Error while creating ifreq structure: Device or "
                "resource busy (os error 16). Invalid TUN/TAP Backend provided by tap0. "
                "Check our documentation on setting up the network devices.",
            ),
        ],
    )
    def test_a_second_interface_must_differ(
        self, call: Caller, change: dict[str, object], fault: str
    ) -> None:
        first = {"iface_id": "a", "host_dev_name": "tap0", "guest_mac": "06:00:00:00:00:01"}
        second = {"iface_id": "b", "host_dev_name": "tap1", "mtu": 68}
        call.accepted("PUT", "/network-interfaces/a", first)
        call.accepted("PUT", "/network-interfaces/b", second)
        assert call("PUT", "/network-interfaces/b", second | change).fault == fault

    def test_a_tap_device_the_host_lacks_is_refused(self, make_monitor: MakeMonitor) -> None:
        call = Caller(make_monitor(host_devices={"tap0"}).socket_path)
        call.accepted("PUT", "/network-interfaces/a", {"iface_id": "a", "host_dev_name": "tap0"})
        reply = call("PUT", "/network-interfaces/b", {"iface_id": "b", "host_dev_name": "tap9"})
        assert "Open tap device failed" in reply.fault
        assert "Invalid TUN/TAP Backend provided by tap9." in reply.fault

    def test_limits_of_a_running_guest_are_merged(
        self, call: Caller, start: Callable[[], None]
    ) -> None:
        bucket = {"size": 1, "one_time_burst": 2, "refill_time": 3}
        interface = {"iface_id": "a", "host_dev_name": "t", "rx_rate_limiter": {"ops": bucket}}
        call.accepted("PUT", "/network-interfaces/a", interface)
        start()
        update = {"iface_id": "a", "tx_rate_limiter": {"bandwidth": bucket}}
        call.accepted("PATCH", "/network-interfaces/a", update)
        listed = shown(call, "network-interfaces")
        assert isinstance(listed, list)
        assert isinstance(listed[0], dict)
        assert listed[0]["rx_rate_limiter"] == {"bandwidth": None, "ops": bucket}
        assert listed[0]["tx_rate_limiter"] == {"bandwidth": bucket, "ops": None}
        unknown = call("PATCH", "/network-interfaces/z", {"iface_id": "z"})
        assert unknown.fault.endswith("Device not found")


class TestPmem:
    def test_a_device_shows_its_defaults(self, call: Caller, disk: str) -> None:
        call.accepted("PUT", "/pmem/p", {"id": "p", "path_on_host": disk})
        assert shows(
            shown(call, "pmem"),
            [
                {
                    "id": "p",
                    "path_on_host": disk,
                    "root_device": False,
                    "read_only": False,
                    "rate_limiter": None,
                }
            ],
        )

    def test_a_second_root_device_is_refused(self, call: Caller, disk: str) -> None:
        call.accepted("PUT", "/pmem/p", {"id": "p", "path_on_host": disk, "root_device": True})
        body = {"id": "q", "path_on_host": disk, "root_device": True}
        assert call("PUT", "/pmem/q", body).fault == (
            "Pmem config error: A root pmem device already exist"
        )

    def test_a_missing_file_is_found_out_at_the_start(
        self, call: Caller, folder: Path, kernel: str
    ) -> None:
        call.accepted("PUT", "/pmem/p", {"id": "p", "path_on_host": str(folder / "nothing")})
        call.accepted("PUT", "/boot-source", {"kernel_image_path": kernel})
        assert call("PUT", "/actions", {"action_type": "InstanceStart"}).fault == (
            "Start microvm error: Cannot create pmem device: "
            "Error accessing backing file: No such file or directory (os error 2)"
        )

    def test_a_patch_without_limits_is_accepted_for_any_id(
        self, call: Caller, start: Callable[[], None]
    ) -> None:
        start()
        call.accepted("PATCH", "/pmem/none", {"id": "none"})
        limits = {"ops": {"size": 1, "refill_time": 1}}
        reply = call("PATCH", "/pmem/none", {"id": "none", "rate_limiter": limits})
        assert "Device not found" in reply.fault

    def test_limits_of_a_running_guest_are_taken_but_not_shown(
        self, call: Caller, disk: str, start: Callable[[], None]
    ) -> None:
        bucket = {"size": 1, "one_time_burst": None, "refill_time": 3}
        call.accepted("PUT", "/pmem/p", {"id": "p", "path_on_host": disk})
        call.accepted("PUT", "/pmem/q", {"id": "q", "path_on_host": disk})
        start()
        call.accepted("PATCH", "/pmem/q", {"id": "q", "rate_limiter": {"ops": bucket}})
        listed = shown(call, "pmem")
        assert isinstance(listed, list)
        limiters = [device["rate_limiter"] for device in listed if isinstance(device, dict)]
        assert limiters == [None, None]


class TestReplacedInterface:
    """PUT of a known interface takes the old one away first."""

    @pytest.fixture(autouse=True)
    def _two(self, call: Caller) -> None:
        for name in ("a", "b"):
            body = {"iface_id": name, "host_dev_name": f"tap_{name}"}
            call.accepted("PUT", f"/network-interfaces/{name}", body)

    def ids(self, call: Caller) -> list[object]:
        listed = shown(call, "network-interfaces")
        assert isinstance(listed, list)
        return [one["iface_id"] for one in listed if isinstance(one, dict)]

    def test_an_accepted_one_moves_to_the_end(self, call: Caller) -> None:
        body = {"iface_id": "a", "host_dev_name": "tap_a"}
        call.accepted("PUT", "/network-interfaces/a", body)
        assert self.ids(call) == ["b", "a"]

    def test_a_refused_one_is_gone(self, call: Caller) -> None:
        body = {"iface_id": "a", "host_dev_name": "tap_b"}
        assert "Device or resource busy" in call("PUT", "/network-interfaces/a", body).fault
        assert self.ids(call) == ["b"]

    @pytest.mark.parametrize("name", ["sixteen_letters_", "lo", "a/b"])
    def test_a_name_that_is_no_tap_device_is_refused(self, call: Caller, name: str) -> None:
        body = {"iface_id": "c", "host_dev_name": name}
        assert "Open tap device failed: " in call("PUT", "/network-interfaces/c", body).fault

    def test_an_unnamed_one_gets_a_name(self, call: Caller) -> None:
        call.accepted("PUT", "/network-interfaces/c", {"iface_id": "c", "host_dev_name": ""})
        listed = shown(call, "network-interfaces")
        assert isinstance(listed, list)
        assert isinstance(listed[-1], dict)
        assert str(listed[-1]["host_dev_name"]).startswith("tap")


def test_there_is_one_root_device_over_drives_and_pmem(call: Caller, disk: str) -> None:
    root = {"id": "p", "path_on_host": disk, "root_device": True}
    drive = {"drive_id": "d", "is_root_device": True}
    call.accepted("PUT", "/pmem/p", root)
    assert "root device defined as a pmem device" in call("PUT", "/drives/d", drive).fault
    call.accepted("PUT", "/pmem/p", root | {"root_device": False})
    call.accepted("PUT", "/drives/d", drive | {"path_on_host": disk})
    assert "root device defined as a block device" in call("PUT", "/pmem/p", root).fault
