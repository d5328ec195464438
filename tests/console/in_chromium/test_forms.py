"""The forms in Chromium: faults that open them, the keyboard alone, and forced colours."""

import pytest
from playwright.sync_api import expect

from tests.chromium import violations
from tests.console.in_chromium.pages import Visit, press, unfold
from tests.console.running import RunningConsole


@pytest.mark.since("1.14")
def test_a_fault_opens_its_form_and_what_was_typed_is_there(visit: Visit) -> None:
    page = visit()
    page.goto("/machines/demo/memory")
    unfold(page, "Set it up")
    field = page.locator("#memory_hotplug-total_size_mib")
    field.fill("much")
    press(page, "Save limit")
    expect(field).to_be_focused()
    expect(field).to_have_value("much")
    assert violations(page) == []


def test_a_form_is_opened_filled_in_and_sent_by_keyboard(
    visit: Visit, console: RunningConsole
) -> None:
    page = visit()
    page.goto("/machines/demo/devices")
    page.locator("summary", has_text="Add a network interface").focus()
    for keys in ("Enter", "Tab", "eth0", "Tab", "tap0", "Enter"):
        page.keyboard.press(keys) if keys in ("Enter", "Tab") else page.keyboard.type(keys)
    expect(page.get_by_role("status")).to_have_text("The network interface is added.")
    assert violations(page) == []
    (made,) = console.machine().definition.configuration.network_interfaces or []
    assert (made.iface_id, made.host_dev_name) == ("eth0", "tap0")


def test_forms_can_be_told_apart_in_forced_colours(visit: Visit) -> None:
    page = visit()
    page.emulate_media(forced_colors="active")
    page.goto("/machines/demo/devices")
    unfold(page, "Add a drive")
    page.locator("#drive-drive_id").fill("a b")
    page.locator("#drive-path_on_host").select_option(label="rootfs.ext4")
    press(page, "Add drive")
    expect(page.locator("#drive-drive_id")).to_be_focused()
    border = page.locator("#drive-drive_id").evaluate("e => getComputedStyle(e).borderTopStyle")
    assert border == "solid"
    assert violations(page) == []
