"""Devices that are set up, changed and removed: what the machine is made of afterwards."""

from __future__ import annotations

import pytest

from generated_vmm import FullVmConfiguration
from tests.console.browser import Browser
from tests.console.machines import start
from tests.console.running import RunningConsole

ADDRESS = "06:00:00:00:00:01"


@pytest.fixture
def devices(alice: Browser) -> Browser:
    alice.open("/machines/demo/devices")
    return alice


def disk(console: RunningConsole) -> str:
    return console.host.suggestions["root_drive.path_on_host"]


def made(console: RunningConsole) -> FullVmConfiguration:
    return console.machine().definition.configuration


def test_only_what_was_chosen_is_set_and_the_rest_stays(
    devices: Browser, console: RunningConsole
) -> None:
    typed = {"drive.drive_id": "data", "drive.path_on_host": disk(console)}
    devices.click("Add drive", {**typed, "drive.io_engine": "Async"})
    assert "data disks/data-" in devices.text
    (drive,) = made(console).drives or []
    assert drive.path_on_host is not None
    assert drive.model_dump(exclude_unset=True, exclude={"path_on_host"}) == {
        "drive_id": "data",
        "is_root_device": False,
        "io_engine": "Async",
    }
    devices.open("/machines/demo/overview")
    devices.click("Save setup")
    devices.open("/machines/demo/devices")
    devices.click("Save data", {"drive_anew.cache_type": "Writeback"})
    before, root = made(console).drives or []
    assert (before.path_on_host, before.cache_type) == (drive.path_on_host, "Writeback")
    assert root.is_root_device


def test_a_removed_disk_is_gone_with_its_file(devices: Browser, console: RunningConsole) -> None:
    devices.click("Add drive", {"drive.drive_id": "data", "drive.path_on_host": disk(console)})
    (drive,) = made(console).drives or []
    file = (
        console.host.launch.machines / "machines" / console.machine().id / str(drive.path_on_host)
    )
    assert file.exists()
    devices.click("Remove data")
    assert "There are no drives." in devices.text
    assert not file.exists()


def test_a_drive_without_a_disk_and_a_second_one_of_its_name_are_refused_at_the_field(
    devices: Browser, console: RunningConsole
) -> None:
    devices.click("Add drive", {"drive.drive_id": "rootfs", "drive.path_on_host": disk(console)})
    before = made(console)
    devices.click("Save rootfs", {"drive_anew.path_on_host": ""})
    assert (devices.status, "Choose a disk image." in devices.text) == (422, True)
    devices.open("/machines/demo/overview")
    devices.click("Save setup", {"root_drive.path_on_host": disk(console)})
    assert (devices.status, "There is a device called rootfs." in devices.text) == (422, True)
    assert made(console) == before


def test_a_device_that_went_meanwhile_is_told(devices: Browser) -> None:
    typed = {"network.iface_id": "eth0", "network.host_dev_name": "tap0"}
    devices.click("Add network interface", typed)
    assert "eth0 tap0" in devices.text
    page = devices.form_of("/network_removal")
    devices.click("Remove eth0")
    devices.post("/machines/demo/network_removal", {**page, "confirmed": "yes"})
    assert devices.status == 409
    assert "There is no such device." in devices.text


def test_what_cannot_be_done_says_why(devices: Browser) -> None:
    start(devices, "devices")
    assert "Set it up Stop the machine first." in devices.text
    assert not devices.has_button("Save vsock")
    assert not devices.has_button("Add drive")
