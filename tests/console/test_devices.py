"""Drives, network interfaces and the balloon, before and after the start."""

from __future__ import annotations

import json

import pytest

from tests.console.browser import Browser
from tests.console.running import RunningConsole, running_console, signed_in


@pytest.fixture
def devices(alice: Browser) -> Browser:
    alice.open("/machines/demo/devices")
    return alice


def start(browser: Browser) -> None:
    browser.open("/machines/demo/overview")
    browser.click("Save setup")
    browser.click("Start")
    browser.open("/machines/demo/devices")


def disk(console: RunningConsole) -> str:
    return console.suggestions["root_drive.path_on_host"]


def test_a_drive_is_added(devices: Browser, console: RunningConsole) -> None:
    devices.click("Save drive", {"drive.drive_id": "data", "drive.path_on_host": disk(console)})
    assert devices.path == "/machines/demo/devices"
    assert "Drive saved." in devices.text
    assert f"data {disk(console)}" in devices.text


def test_a_name_the_monitor_would_refuse_is_told_at_its_field(
    devices: Browser, console: RunningConsole
) -> None:
    devices.click("Save drive", {"drive.drive_id": "da ta", "drive.path_on_host": disk(console)})
    assert devices.status == 422
    assert "Name Name 'da ta' may only have letters, digits and underscores" in devices.text
    assert "It was not sent: see the marked field." in devices.text
    assert console.changes() == []


def test_only_what_was_chosen_is_sent(devices: Browser, console: RunningConsole) -> None:
    typed = {"drive.drive_id": "data", "drive.path_on_host": disk(console)}
    devices.click("Save drive", {**typed, "drive.io_engine": "Async"})
    bodies = [call.body or b"" for call in console.monitor.calls if call.method == "PUT"]
    assert json.loads(bodies[0]) == {
        "drive_id": "data",
        "path_on_host": disk(console),
        "is_root_device": False,
        "io_engine": "Async",
    }


def test_the_disk_image_of_a_started_machine_is_changed(
    devices: Browser, console: RunningConsole
) -> None:
    start(devices)
    devices.click(
        "Change disk image", {"medium.drive_id": "rootfs", "medium.path_on_host": disk(console)}
    )
    assert "The drive has another disk image now." in devices.text
    assert console.changes()[-1] == "PATCH /drives/rootfs"


def test_an_interface_is_added_before_the_start_alone(
    devices: Browser, console: RunningConsole
) -> None:
    typed = {"network.iface_id": "eth0", "network.host_dev_name": "tap0"}
    devices.click("Save interface", typed)
    assert "Network interface saved." in devices.text
    assert "eth0 tap0" in devices.text
    start(devices)
    assert not devices.has_button("Save interface")
    assert "Only possible before the start." in devices.text


def test_a_hardware_address_twice_is_told_at_its_field(devices: Browser) -> None:
    typed = {"network.host_dev_name": "tap0", "network.guest_mac": "06:00:00:00:00:01"}
    devices.click("Save interface", {**typed, "network.iface_id": "eth0"})
    devices.click("Save interface", {**typed, "network.iface_id": "eth1"})
    assert devices.status == 422
    plain = "Another interface has this hardware address."
    fault = "Network config error: The MAC address is already in use: 06:00:00:00:00:01"
    assert f"Hardware address {plain} The monitor's words {fault}" in devices.text


def test_a_balloon_larger_than_the_memory_is_told_at_its_field(devices: Browser) -> None:
    devices.click("Save balloon", {"balloon.amount_mib": "4096"})
    assert devices.status == 422
    plain = "That is more than the machine has."
    fault = "Balloon config error: Amount of pages requested is too large."
    assert f"Size in MiB {plain} The monitor's words {fault}" in devices.text


def test_the_balloon_is_resized_after_the_start(devices: Browser, console: RunningConsole) -> None:
    devices.click("Save balloon", {"balloon.amount_mib": "16"})
    start(devices)
    assert devices.field("balloon_size.amount_mib") == "16"
    devices.click("Resize balloon", {"balloon_size.amount_mib": "32"})
    assert "The guest was asked to follow." in devices.text
    assert console.changes()[-1] == "PATCH /balloon"
    devices.click("Change pace", {"balloon_pace.stats_polling_interval_s": "5"})
    assert "The pace has changed." in devices.text


def test_a_machine_without_a_balloon_says_so(devices: Browser) -> None:
    start(devices)
    assert "This machine has started without one." in devices.text


def test_the_guests_memory_is_drawn(devices: Browser) -> None:
    devices.click("Save balloon", {"balloon.amount_mib": "16"})
    start(devices)
    devices.open("/machines/demo/overview")
    assert "In the balloon 16 MiB" in devices.text
    assert "128 MiB" in devices.text
    devices.open("/machines/demo/charts")
    assert "In the balloon 16 MiB" in devices.text


def test_without_statistics_there_is_nothing_to_draw() -> None:
    with running_console() as console, signed_in(console) as alice:
        start(alice)
        alice.open("/machines/demo/overview")
        assert "In use" not in alice.page.headings
        alice.open("/machines/demo/charts")
        assert alice.text == ""
