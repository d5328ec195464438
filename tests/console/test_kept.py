"""What a machine is made of is kept, also what no monitor shows, and told to the next monitor."""

from __future__ import annotations

from tests.console.browser import Browser
from tests.console.machines import create, do
from tests.console.running import RunningConsole


def test_metadata_and_devices_are_there_again(alice: Browser, console: RunningConsole) -> None:
    create(alice, "full", new_network__host_dev_name="tap0", new__start="")
    do(alice, "full", "metadata", "Save access", {"access.network_interfaces": "eth0"})
    do(alice, "full", "metadata", "Save document", {"document.contents": '{"a": null}'})
    do(alice, "full", "devices", "Save vsock", {"vsock.guest_cid": "9"})
    alice.click("Start")
    do(alice, "full", "metadata", "Save document", {"document.contents": '{"b": 1}'})
    alice.click("Stop")
    alice.click("Start")
    assert "full Running" in alice.text
    alice.open("/machines/full/metadata")
    assert 'Document { "b": 1 }' in alice.text
    alice.open("/machines/full/devices")
    assert "eth0 tap0" in alice.text
    assert "Address of the guest 9" in alice.text


def test_what_cannot_be_told_again_is_a_sentence_and_nothing_is_forgotten(
    alice: Browser, console: RunningConsole
) -> None:
    disk = console.disk("gone")
    create(alice, "lost", root_drive__path_on_host=str(disk), root_drive__is_read_only="true")
    alice.click("Stop")
    disk.unlink()
    alice.click("Start")
    assert alice.status in (422, 507)
    assert str(disk) in alice.text
    assert "lost Ended" in alice.text
    disk.write_bytes(bytes(4096))
    alice.click("Start")
    assert "lost Running" in alice.text
