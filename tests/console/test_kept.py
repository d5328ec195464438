"""What a machine is made of is kept, also what no monitor shows, and told to the next monitor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console.browser import Browser
from tests.console.machines import create, delete, do
from tests.console.running import ALICE, RunningConsole, hosting_console, signed_in


@pytest.fixture
def alice(host: RunningConsole) -> Iterator[Browser]:
    with signed_in(host, ALICE) as browser:
        yield browser


def start_again(browser: Browser, name: str) -> None:
    browser.open(f"/machines/{name}")
    if browser.has_button("Stop"):
        browser.click("Stop")
    browser.click("Start again")
    assert f"{name} Running" in browser.text


def calls_of(browser: Browser, name: str) -> str:
    browser.open(f"/machines/{name}/calls")
    return browser.text


TOLD = (
    ("monitor", "Save log", {"logger.level": "Debug", "logger.show_level": "true"}, "PUT /logger"),
    pytest.param(
        *("monitor", "Save console", {"serial.rate_limiter.size": "65536"}, "PUT /serial"),
        marks=pytest.mark.since("1.16"),
    ),
    ("monitor", "Save template", {"cpu_config.contents": "{}"}, "PUT /cpu-config"),
)


@pytest.mark.parametrize(("tab", "button", "typed", "call"), TOLD)
def test_what_no_monitor_shows_is_shown_and_told_again(
    alice: Browser, tab: str, button: str, typed: dict[str, str], call: str
) -> None:
    create(alice, "told", new__start="")
    do(alice, "told", tab, button, typed)
    assert {name: alice.field(name) for name in typed} == typed
    alice.click("Start")
    assert calls_of(alice, "told").count(call) == 1
    start_again(alice, "told")
    assert calls_of(alice, "told").count(call) == 2
    delete(alice, "told")


@pytest.mark.since("1.16")
def test_metadata_and_devices_are_there_again(alice: Browser, host: RunningConsole) -> None:
    disk = host.disk("more")
    create(alice, "full", new_network__host_dev_name="tap0", new__start="")
    do(alice, "full", "metadata", "Save access", {"access.network_interfaces": "eth0"})
    do(alice, "full", "metadata", "Save document", {"document.contents": '{"a": null}'})
    do(alice, "full", "memory", "Save limit", {"memory_hotplug.total_size_mib": "256"})
    do(alice, "full", "devices", "Save vsock", {})
    do(alice, "full", "devices", "Save source", {})
    alice.click("Start")
    typed = {"drive.drive_id": "late", "drive.path_on_host": str(disk)}
    do(alice, "full", "devices", "Add drive", typed)
    start_again(alice, "full")
    alice.open("/machines/full/metadata")
    assert 'Document { "a": null }' in alice.text
    alice.open("/machines/full/memory")
    assert "On top at most 256 MiB" in alice.text
    alice.open("/machines/full/devices")
    assert f"late {disk}" in alice.text
    assert "eth0 tap0" in alice.text
    assert "vsock.socket" in alice.text
    assert "without limits" in alice.text
    delete(alice, "full")


def test_what_cannot_be_told_again_is_a_sentence_and_nothing_is_forgotten(
    alice: Browser, host: RunningConsole
) -> None:
    disk = host.disk("gone")
    create(alice, "lost", root_drive__path_on_host=str(disk), root_drive__is_read_only="true")
    alice.click("Stop")
    disk.unlink()
    alice.click("Start again")
    assert alice.status == 422
    assert "Start again There is no such file or folder on this host." in alice.text
    assert "lost Ended" in alice.text
    disk.write_bytes(bytes(4096))
    alice.click("Start again")
    assert "lost Running" in alice.text
    delete(alice, "lost")


@pytest.mark.since("1.16")
def test_a_machine_that_was_made_without_pci_says_so(alice: Browser) -> None:
    create(alice, "fixed", new__has_pci="")
    alice.open("/machines/fixed/devices")
    assert "Devices come and go while it runs only if it was created for that (PCI)." in alice.text
    assert not alice.has_button("Add drive")
    delete(alice, "fixed")


def test_a_console_that_comes_back_knows_what_it_told(tmp_path: Path) -> None:
    with hosting_console(tmp_path) as console, signed_in(console, ALICE) as alice:
        alice.open_until("demo Running", "/")
        create(alice, "kept", new__start="")
        do(alice, "kept", "monitor", "Save log", {"logger.level": "Trace"})
    with hosting_console(tmp_path) as console, signed_in(console, ALICE) as alice:
        alice.open("/machines/kept/monitor")
        assert alice.field("logger.level") == "Trace"
        for name in ("demo", "fresh", "kept"):
            delete(alice, name)
