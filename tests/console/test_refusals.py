"""Every failure a person can cause is a sentence on the page, and changes nothing."""

from __future__ import annotations

import pytest

from tests.console.browser import Browser
from tests.console.running import RunningConsole


def test_a_viewer_may_look(bob: Browser) -> None:
    assert bob.status == 200
    assert "Bob Viewer viewer" in bob.text
    assert "look at everything but secrets, and change nothing" in bob.text


@pytest.mark.parametrize(
    "tab", ["overview", "devices", "memory", "metadata", "snapshots", "monitor"]
)
def test_a_viewer_sees_no_button_that_refuses(bob: Browser, tab: str) -> None:
    bob.open(f"/machines/demo/{tab}")
    assert not [form.action for form in bob.page.forms if "/machines/" in form.action]


def test_a_viewer_is_refused_with_a_message(bob: Browser, console: RunningConsole) -> None:
    bob.post("/machines/demo/start", {})
    assert bob.status == 403
    assert "Only an operator may start a machine. Nothing was changed." in bob.text
    assert console.monitor.state == "Not started"
    assert console.changes() == []


def test_starting_without_a_kernel_shows_the_fault_at_the_button(alice: Browser) -> None:
    alice.click("Start")
    assert alice.status == 422
    plain = "The machine has no kernel yet. Save the setup first."
    fault = "Start microvm error: Cannot start microvm without kernel configuration."
    assert f"Start {plain} The monitor's words {fault}" in alice.text


@pytest.mark.parametrize(
    ("field", "label", "plain", "fault"),
    [
        (
            "boot_source.kernel_image_path",
            "Kernel image",
            "There is no such file or folder on this host.",
            "Boot source error: The kernel file cannot be opened: No such file or directory",
        ),
        (
            "boot_source.initrd_path",
            "Initial RAM disk",
            "There is no such file",
            "Boot source error: The initrd file cannot be opened",
        ),
        (
            "root_drive.path_on_host",
            "Disk image",
            "There is no such file or folder on this host.",
            "Drive config error: Unable to create the virtio block device",
        ),
    ],
)
def test_a_bad_path_shows_the_fault_at_its_field(
    alice: Browser, field: str, label: str, plain: str, fault: str
) -> None:
    alice.click("Save setup", {field: "/nowhere"})
    assert alice.status == 422
    assert f"{label} {plain}" in alice.text
    assert f"The monitor's words {fault}" in alice.text
    assert alice.field(field) == "/nowhere"


def test_a_refused_kernel_is_not_shown_as_the_one_there_is(
    alice: Browser, console: RunningConsole
) -> None:
    alice.click("Save setup", {"boot_source.kernel_image_path": "/nowhere"})
    alice.open("/machines/demo/overview")
    suggested = console.suggestions["boot_source.kernel_image_path"]
    assert alice.field("boot_source.kernel_image_path") == suggested
    alice.click("Save setup")
    assert "Setup saved." in alice.text


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ({"machine_config.vcpu_count": "33"}, "Virtual processors Must be less than or equal to"),
        ({"machine_config.vcpu_count": "two"}, "Virtual processors Enter a whole number."),
        ({"machine_config.mem_size_mib": ""}, "Memory in MiB This is needed."),
        ({"boot_source.kernel_image_path": ""}, "Kernel image This is needed."),
    ],
)
def test_what_cannot_be_sent_is_told_before_anything_is(
    alice: Browser, console: RunningConsole, typed: dict[str, str], sentence: str
) -> None:
    alice.click("Save setup", typed)
    assert alice.status == 422
    assert sentence in alice.text
    assert console.changes() == []


def test_text_is_shown_as_text(alice: Browser) -> None:
    alice.click("Save setup", {"boot_source.kernel_image_path": '"><script>alert(1)</script>'})
    assert alice.field("boot_source.kernel_image_path") == '"><script>alert(1)</script>'


def test_a_monitor_that_is_gone_is_a_sentence(alice: Browser, console: RunningConsole) -> None:
    console.monitor.stop()
    alice.home()
    assert alice.status == 200
    socket_path = console.monitor.socket_path
    assert f"No monitor responds at {socket_path}. Is it running?" in alice.text
    assert not alice.has_button("Start")


def test_a_monitor_that_goes_before_the_click_is_a_sentence_at_the_button(
    alice: Browser, console: RunningConsole
) -> None:
    console.monitor.stop()
    alice.click("Start")
    assert alice.status == 502
    assert f"Start No monitor responds at {console.monitor.socket_path}." in alice.text


def test_a_session_that_ended_before_the_click_leads_back(
    alice: Browser, console: RunningConsole
) -> None:
    alice.open("/machines/demo/devices")
    alice.forget_cookies()
    alice.click("Add network interface", {"network.host_dev_name": "tap7"})
    assert alice.status == 401
    assert "Your session has ended Nothing was changed." in alice.text
    assert "What you typed Tap device tap7" in alice.text
    assert console.changes() == []
    alice.open(alice.page.links["Sign in"])
    alice.click("AA Alice Admin")
    assert alice.path == "/machines/demo/devices"


def test_a_form_of_another_session_is_refused(alice: Browser, console: RunningConsole) -> None:
    alice.click("Start", {"csrf_token": "of somebody else"})
    assert alice.status == 403
    assert "This form is no longer valid. Go back, reload the page and try again." in alice.text
    assert console.changes() == []


def test_declining_to_sign_in_is_a_sentence(console: RunningConsole) -> None:
    with Browser(console.url) as browser:
        browser.home()
        browser.click("Do not sign in")
        assert browser.status == 400
        assert "The sign-in service did not sign you in." in browser.text


@pytest.mark.parametrize("path", ["/machines/nobody", "/machines/demo/explode", "/nowhere"])
def test_an_unknown_address_is_a_sentence(alice: Browser, path: str) -> None:
    alice.open(path)
    assert alice.status == 404
    assert "All machines" in alice.page.links


def test_a_page_there_is_not_is_told_in_words(alice: Browser) -> None:
    alice.open("/nothing")
    assert alice.status == 404
    assert "There is no such page." in alice.text


def test_the_address_of_a_failed_change_leads_to_the_machine(alice: Browser) -> None:
    alice.open("/machines/demo/medium")
    assert alice.path == "/machines/demo/devices"
