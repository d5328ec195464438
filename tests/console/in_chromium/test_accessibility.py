"""The console in Chromium: every page is accessible, fits each width and is used by keyboard."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from generated_vmm.testing import SimulatedMonitor
from tests.chromium import close_context, violations
from tests.console.in_chromium.pages import Scheme, Visit, press, set_up, unfold_all
from tests.console.running import RunningConsole, running_console

TABS = (*("overview", "devices", "memory", "metadata", "snapshots"), *("restart", "configuration"))


@pytest.mark.timeout(600)  # axe reads every page, which a busy computer takes minutes for
@pytest.mark.parametrize(
    ("width", "scheme", "started"), [(1280, "light", False), (390, "dark", True)]
)
def test_every_page_is_accessible_and_fits(
    visit: Visit, width: int, scheme: Scheme, *, started: bool
) -> None:
    page = visit(width=width, scheme=scheme)
    set_up(page)
    if started:
        press(page, "Start")
        expect(page.get_by_role("status")).to_have_text("The machine is running.")
    for tab in TABS:
        page.goto(f"/machines/demo/{tab}")
        unfold_all(page)
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.click("summary")
    assert violations(page) == []


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


def test_pages_with_faults_are_accessible(visit: Visit) -> None:
    page = visit()
    wrong = page.locator("#machine_config-vcpu_count")
    wrong.fill("many")
    press(page, "Save setup")
    expect(wrong).to_be_focused()
    expect(wrong).to_have_accessible_description(re.compile("Enter a whole number."))
    assert violations(page) == []
    page.goto("/nowhere")
    assert violations(page) == []
    page.goto("/signed-out")
    assert violations(page) == []


def test_the_keyboard_is_enough(visit: Visit, console: RunningConsole) -> None:
    page = visit()

    def reach(label: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.textContent.trim()") == label:
                return page.keyboard.press("Enter")
        pytest.fail(f"{label} cannot be reached")

    reach("Save setup")
    expect(page.get_by_role("status")).to_have_text("Setup saved.")
    reach("Start")
    expect(page.get_by_role("status")).to_have_text("The machine is running.")
    page.focus("summary")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Sign out everywhere")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Sign out everywhere")).to_be_hidden()
    assert console.state() == "Running"
