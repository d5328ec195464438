"""The console in Chromium: every page is accessible, fits each width and is used by keyboard."""

import re
from pathlib import Path

from playwright.sync_api import Browser, expect

from generated_vmm.testing import SimulatedMonitor
from tests.chromium import close_context, violations
from tests.console.in_chromium.pages import Visit, press, reach
from tests.console.running import RunningConsole, running_console


def test_the_list_of_machines_is_accessible(chromium: Browser, tmp_path: Path) -> None:
    sockets = {name: str(tmp_path / f"{name}.socket") for name in ("web", "gone")}
    with SimulatedMonitor(sockets["web"]) as monitor, running_console(sockets) as console:
        page = chromium.new_page(base_url=console.url)
        page.goto("/")
        page.click("button[value=alice]")
        expect(page.get_by_role("listitem")).to_have_count(2)
        assert violations(page) == []
        monitor.stop()
        expect(page.get_by_role("listitem").first).to_contain_text("No answer")
        close_context(page.context)


def test_a_fault_is_told_at_its_field(visit: Visit) -> None:
    page = visit()
    wrong = page.locator("#machine_config-vcpu_count")
    wrong.fill("many")
    press(page, "Save setup")
    expect(wrong).to_be_focused()
    expect(wrong).to_have_accessible_description(re.compile("Input should be a valid integer"))
    assert violations(page) == []


def test_the_keyboard_is_enough(visit: Visit, console: RunningConsole) -> None:
    page = visit()
    reach(page, "Save setup")
    expect(page.get_by_role("status")).to_have_text("Setup saved.")
    reach(page, "Start")
    expect(page.get_by_role("status")).to_have_text("The machine is running.")
    page.focus("summary")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Sign out everywhere")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Sign out everywhere")).to_be_hidden()
    assert console.state() == "Running"
