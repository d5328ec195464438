"""Devices that come, change and go: what their forms send, and where their faults are told."""

from __future__ import annotations

import json

import pytest

from examples.console.changes.devices import PLUGGING
from examples.console.versions import version_of
from generated_vmm import API_VERSION, VmmClient
from tests.console.browser import Browser
from tests.console.machines import start
from tests.console.running import RunningConsole

plugging = pytest.mark.skipif(
    version_of(API_VERSION) < PLUGGING, reason="devices come and go since 1.16 of the monitor"
)


@pytest.fixture
def devices(alice: Browser) -> Browser:
    alice.open("/machines/demo/devices")
    return alice


def disk(console: RunningConsole) -> str:
    return console.suggestions["root_drive.path_on_host"]


def sent(console: RunningConsole, method: str) -> object:
    """The body of the last call with this method."""
    bodies = [call.body for call in console.monitor.calls if call.method == method]
    return json.loads(bodies[-1] or b"null")


def test_an_added_drive_is_listed(devices: Browser, console: RunningConsole) -> None:
    devices.click("Add drive", {"drive.drive_id": "data", "drive.path_on_host": disk(console)})
    assert devices.path == "/machines/demo/devices"
    assert f"data {disk(console)}" in devices.text


def test_a_name_the_monitor_would_refuse_is_told_at_its_field(
    devices: Browser, console: RunningConsole
) -> None:
    devices.click("Add drive", {"drive.drive_id": "da ta", "drive.path_on_host": disk(console)})
    assert devices.status == 422
    assert "Name Name 'da ta' may only have letters, digits and underscores" in devices.text
    assert "It was not done: see the marked field." in devices.text
    assert console.changes() == []


def test_only_what_was_chosen_is_sent(devices: Browser, console: RunningConsole) -> None:
    typed = {"drive.drive_id": "data", "drive.path_on_host": disk(console)}
    devices.click("Add drive", {**typed, "drive.io_engine": "Async"})
    assert sent(console, "PUT") == {
        "drive_id": "data",
        "path_on_host": disk(console),
        "is_root_device": False,
        "io_engine": "Async",
    }


def test_a_limit_without_a_time_is_one_per_second(
    devices: Browser, console: RunningConsole
) -> None:
    typed = {"drive.drive_id": "data", "drive.path_on_host": disk(console)}
    devices.click("Add drive", {**typed, "drive.rate_limiter.bandwidth.size": "4096"})
    bucket = {"size": 4096, "refill_time": 1000}
    body = sent(console, "PUT")
    assert isinstance(body, dict)
    assert body["rate_limiter"] == {"bandwidth": bucket}
    assert "data limited" in devices.text
    assert devices.field("drive_anew.rate_limiter.bandwidth.size") == "4096"


def test_a_limit_is_changed_while_the_machine_runs_and_taken_away_with_0(
    devices: Browser, console: RunningConsole
) -> None:
    start(devices, "devices")
    field = "drive_limits.rate_limiter.ops"
    devices.click("Save limits of rootfs", {f"{field}.size": "10", f"{field}.refill_time": "500"})
    assert devices.field(f"{field}.size") == "10"
    assert devices.field(f"{field}.refill_time") == "500"
    devices.click("Save limits of rootfs", {f"{field}.size": "0"})
    assert devices.field(f"{field}.size") == ""
    assert "limited" not in devices.text
    devices.open("/machines/demo/overview")
    assert "The limits have changed: rootfs." in devices.text


def test_a_limit_that_is_no_number_is_told_at_its_device(
    devices: Browser, console: RunningConsole
) -> None:
    with VmmClient(console.monitor.socket_path) as vm:
        vm.drive("data").set(path_on_host=disk(console), is_root_device=False)
    start(devices, "devices")
    devices.click("Save limits of data", {"drive_limits.rate_limiter.ops.size": "many"})
    assert devices.status == 422
    shown = [form.fields for form in devices.page.forms if form.action.endswith("/drive_limits")]
    assert [
        (fields["drive_limits.drive_id"], fields["drive_limits.rate_limiter.ops.size"])
        for fields in shown
    ] == [("rootfs", ""), ("data", "many")]


@plugging
def test_the_root_drive_stays(devices: Browser, console: RunningConsole) -> None:
    with VmmClient(console.monitor.socket_path) as vm:
        vm.drive("data").set(path_on_host=disk(console), is_root_device=False)
    start(devices, "devices")
    assert devices.has_button("Remove data")
    assert not devices.has_button("Remove rootfs")


@plugging
def test_a_device_that_went_meanwhile_is_told(devices: Browser, console: RunningConsole) -> None:
    start(devices, "devices")
    devices.click("Add drive", {"drive.drive_id": "data", "drive.path_on_host": disk(console)})
    assert "The drive is added." in devices.text
    with VmmClient(console.monitor.socket_path) as vm:
        vm.drive("data").delete()
    devices.click("Remove data")
    assert devices.status == 422
    assert "There is no such device." in devices.text


def test_an_interface_is_listed_with_its_tap_device(devices: Browser) -> None:
    typed = {"network.iface_id": "eth0", "network.host_dev_name": "tap0"}
    devices.click("Add network interface", typed)
    assert "eth0 tap0" in devices.text


def test_a_hardware_address_twice_is_told_at_its_field(devices: Browser) -> None:
    typed = {"network.host_dev_name": "tap0", "network.guest_mac": "06:00:00:00:00:01"}
    devices.click("Add network interface", {**typed, "network.iface_id": "eth0"})
    devices.click("Add network interface", {**typed, "network.iface_id": "eth1"})
    assert devices.status == 422
    plain = "Another interface has this hardware address."
    fault = "Network config error: The MAC address is already in use: 06:00:00:00:00:01"
    assert f"Hardware address {plain} The monitor's words {fault}" in devices.text


def test_what_cannot_be_done_says_why(devices: Browser) -> None:
    assert "Set it up" in devices.text
    start(devices, "devices")
    assert "Set it up Only possible before the start." in devices.text
    assert not devices.has_button("Save vsock")


def test_a_source_of_random_numbers_needs_nothing(
    devices: Browser, console: RunningConsole
) -> None:
    devices.click("Save source")
    assert sent(console, "PUT") == {}
    assert "Device without limits" in devices.text


def test_a_viewer_sees_the_devices_and_no_form(
    devices: Browser, bob: Browser, console: RunningConsole
) -> None:
    devices.click("Add drive", {"drive.drive_id": "data", "drive.path_on_host": disk(console)})
    bob.open("/machines/demo/devices")
    assert f"data {disk(console)}" in bob.text
    assert "Add a drive" not in bob.text
    assert "Set it up" not in bob.text
