"""The forms in Chromium: a machine is made, changed while it runs, written down, doubled, ended."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.chromium import violations
from tests.console.in_chromium.pages import Visit, alice_at, press, unfold
from tests.console.running import RunningConsole, hosting_console


@pytest.fixture
def host() -> Iterator[RunningConsole]:
    with hosting_console() as console:
        yield console


@pytest.fixture
def desk(chromium: Browser, host: RunningConsole) -> Iterator[Page]:
    """Alice at a console that starts machines; one of them runs."""
    with alice_at(chromium, host) as page:
        page.on("dialog", lambda dialog: dialog.accept())
        yield page


def told(page: Page, sentence: str) -> None:
    """The page says that it is done, and has nothing that keeps anybody out."""
    expect(page.get_by_role("status")).to_have_text(sentence)
    assert violations(page) == []


def go_to(page: Page, tab: str) -> None:
    page.get_by_role("link", name=tab, exact=True).click()
    expect(page.get_by_role("link", name=tab, exact=True)).to_have_attribute("aria-current", "page")


@pytest.mark.since("1.12")
def test_from_creating_a_machine_over_its_clone_to_deleting_both(desk: Page) -> None:
    create(desk, "web")
    grow(desk)
    write_down(desk)
    go_on_twice(desk)
    for name in ("web-2", "web"):
        desk.goto(f"/machines/{name}")
        press(desk, "Stop")
        expect(desk.locator("h1")).to_contain_text("Ended")
        press(desk, "Delete")
        told(desk, "The machine is deleted.")


def create(page: Page, name: str) -> None:
    page.get_by_role("link", name="New machine").click()
    page.get_by_role("link", name="Medium").click()
    page.get_by_label("Name").fill("demo")
    press(page, "Create machine")
    expect(page.get_by_label("Name")).to_be_focused()
    assert violations(page) == []
    page.get_by_label("Name").fill(name)
    press(page, "Create machine")
    expect(page.locator("h1")).to_contain_text(f"{name} Running")
    expect(page.get_by_role("img", name=re.compile("of 512 MiB"))).to_be_visible()


def grow(page: Page) -> None:
    go_to(page, "Devices")
    unfold(page, "Grow")
    size = page.get_by_label("New size")
    size.fill("many")
    press(page, "Grow rootfs")
    expect(size).to_be_focused()
    expect(size).to_have_accessible_description(re.compile("Enter a whole number."))
    assert violations(page) == []
    size.fill("2")
    press(page, "Grow rootfs")
    expect(page.get_by_role("status")).to_contain_text("The disk has grown")


def write_down(page: Page) -> None:
    press(page, "Pause")
    go_to(page, "Snapshots")
    press(page, "Create snapshot")
    told(page, "Snapshot created.")
    press(page, "Resume")
    expect(page.locator("h1")).to_contain_text("Running")


def go_on_twice(page: Page) -> None:
    expect(page.locator("#clone-name")).to_have_value("web-2")
    press(page, "Clone")
    expect(page.locator("h1")).to_contain_text("web-2 Running")
    told(page, "The clone is there.")
    page.goto("/machines/web")
    expect(page.locator("h1")).to_contain_text("web Running")


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
    told(page, "The network interface is added.")
    (made,) = console.machine().definition.configuration.network_interfaces or []
    assert (made.iface_id, made.host_dev_name) == ("eth0", "tap0")


def test_forms_can_be_told_apart_in_forced_colours(chromium: Browser) -> None:
    with hosting_console() as house, alice_at(chromium, house, forced_colors="active") as page:
        page.goto("/machines/fresh/devices")
        unfold(page, "Add a drive")
        page.locator("#drive-drive_id").fill("a b")
        page.locator("#drive-path_on_host").select_option(label="rootfs.ext4")
        press(page, "Add drive")
        expect(page.locator("#drive-drive_id")).to_be_focused()
        border = page.locator("#drive-drive_id").evaluate("e => getComputedStyle(e).borderTopStyle")
        assert border == "solid"
        assert violations(page) == []
