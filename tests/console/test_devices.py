"""Devices that are set up, changed and removed: what the machine is made of afterwards."""

from pathlib import Path

import pytest

from generated_vmm import Drive, FullVmConfiguration, VmmClient
from generated_vmm.machines import Definition
from generated_vmm.testing import SimulatedMonitor
from tests.console.browser import Browser, start
from tests.console.running import RunningConsole, running_console, signed_in

ADDRESS = "06:00:00:00:00:01"


@pytest.fixture
def devices(alice: Browser) -> Browser:
    alice.open("/machines/demo/devices")
    return alice


def made(console: RunningConsole) -> FullVmConfiguration:
    return console.machine().definition.configuration


def test_only_what_was_chosen_is_set_and_the_rest_stays(
    devices: Browser, console: RunningConsole
) -> None:
    typed = {"drive.drive_id": "data", "drive.path_on_host": console.suggested_disk}
    devices.click("Add drive", {**typed, "drive.io_engine": "Async"}, sees="data disks/")
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


def test_a_drive_without_a_disk_and_a_second_one_of_its_name_are_refused_at_the_field(
    devices: Browser, console: RunningConsole
) -> None:
    devices.click(
        "Add drive", {"drive.drive_id": "rootfs", "drive.path_on_host": console.suggested_disk}
    )
    before = made(console)
    devices.click("Save rootfs", {"drive_anew.path_on_host": ""})
    devices.require(422, "Choose a disk image.")
    devices.open("/machines/demo/overview")
    devices.click("Save setup", {"root_drive.path_on_host": console.suggested_disk})
    devices.require(422, "There is a device called rootfs.")
    assert made(console) == before


def test_a_device_that_went_meanwhile_is_told(devices: Browser) -> None:
    typed = {"network.iface_id": "eth0", "network.host_dev_name": "tap0"}
    devices.click("Add network interface", typed, sees="eth0 tap0")
    page = devices.form_of("/network_removal")
    devices.click("Remove eth0")
    devices.post("/machines/demo/network_removal", {**page, "confirmed": "yes"})
    devices.require(409, "There is no such device.")


def test_what_cannot_be_done_says_why(devices: Browser, console: RunningConsole) -> None:
    start(devices, "overview")
    assert console.host.suggestions["boot_source.kernel_image_path"] in devices.text
    assert not devices.has_button("Save setup")
    devices.open("/machines/demo/devices")
    assert "The machine runs: stop it to change what is not offered here." in devices.text
    assert not devices.has_button("Save vsock")
    assert not devices.has_button("Add drive")


def test_the_id_of_a_device_is_no_markup(alice: Browser, console: RunningConsole) -> None:
    """A program that shares the folder may give it any."""
    drive = Drive(drive_id='x" <i>', is_root_device=False, path_on_host=console.suggested_disk)
    made_by_it = Definition(configuration=FullVmConfiguration(drives=[drive]))
    console.server.do(console.host.create("odd", made_by_it))
    alice.open("/machines/odd/devices", sees='x" <i>')
    assert "<i>" not in alice.body


# The balloon, memory on top, and what is drawn of it


def test_a_machine_without_a_balloon_says_so(alice: Browser) -> None:
    start(alice, "memory")
    for name, why in (
        ("balloon_size", "This machine has no balloon."),
        ("memory_size", "Memory on top was not set up before the start."),
    ):
        form = {name: alice.field(name) for name in ("csrf_token", "page")}
        alice.post(f"/machines/demo/{name}", form)
        alice.require(409, why)
    assert not alice.has_button("Resize balloon")
    assert not alice.has_button("Ask for this size")


def test_without_statistics_there_is_nothing_to_draw(tmp_path: Path) -> None:
    path = str(tmp_path / "vm.socket")
    with (
        SimulatedMonitor(path, check_files=False),
        VmmClient(path) as vm,
        running_console({"demo": path}) as console,
        signed_in(console) as alice,
    ):
        vm.boot("/kernel", "/disk")
        alice.open("/machines/demo/overview")
        assert "In use" not in alice.page.headings
        alice.open("/machines/demo/charts")
        assert alice.text == ""


# The document that the guest can read, and who may read it


FIELD = "document.contents"


@pytest.fixture
def metadata(alice: Browser) -> Browser:
    alice.open("/machines/demo/metadata")
    return alice


def test_what_is_no_document_is_told_at_its_field(metadata: Browser) -> None:
    metadata.click("Save document", {FIELD: "{nope"})
    metadata.require(422, "Invalid JSON")
    assert metadata.field(FIELD) == "{nope"


def test_access_through_an_unknown_interface_is_told_at_the_start(metadata: Browser) -> None:
    metadata.click("Save access", {"access.network_interfaces": "eth7"})
    start(metadata, "overview")
    metadata.click("Start")
    assert metadata.status == 422
    assert "does not correspond to any existing network interface" in metadata.text


def test_access_through_two_interfaces(metadata: Browser, console: RunningConsole) -> None:
    metadata.open("/machines/demo/devices")
    for number in ("0", "1"):
        typed = {"network.iface_id": f"eth{number}", "network.host_dev_name": f"tap{number}"}
        metadata.click("Add network interface", typed)
    metadata.open("/machines/demo/metadata")
    metadata.click("Save access", {"access.network_interfaces": "eth0, eth1"}, sees="Access saved.")
    assert metadata.field("access.network_interfaces") == "eth0 eth1"


def test_a_started_machine_without_access_says_so(metadata: Browser) -> None:
    start(metadata, "metadata")
    assert not metadata.has_button("Save document")
    form = {name: metadata.field(name) for name in ("csrf_token", "page")}
    metadata.post("/machines/demo/metadata", {**form, FIELD: "{}"})
    metadata.require(409, "This machine has started without access to metadata.")


def test_a_viewer_does_not_see_the_document_which_may_have_secrets(
    metadata: Browser, bob: Browser
) -> None:
    metadata.click("Save document", {FIELD: '{"hostname": "of-demo"}'})
    for tab in ("metadata", "configuration", "overview"):
        bob.open(f"/machines/demo/{tab}")
        assert bob.status == 200
        assert "of-demo" not in bob.body
