"""Pages that stay true in Chromium: many tabs, a guest that floods, a console that is gone."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Dialog, Page, expect

from examples.console.hosted import HostedMonitor
from tests.browser.element import HIDE
from tests.chromium import violations
from tests.console.in_chromium.pages import Visit, alice_at, press, set_up, unfold
from tests.console.running import RunningConsole, hosting_console
from tests.programs import require_terminals

TABS = 7
"""One more than a browser has connections to one place."""
SCREEN = ".xterm-rows"
FLOOD = b"\x1b[31mcolours\x1b[0m and text that nobody can read \r\n" * 200


@pytest.fixture
def desk(chromium: Browser, host: RunningConsole) -> Iterator[Page]:
    """Alice at a console with a machine that runs."""
    require_terminals()
    with alice_at(chromium, host) as page:
        yield page


def test_seven_tabs_at_the_console_leave_room_for_more(desk: Page) -> None:
    tabs = [desk.context.new_page() for _ in range(TABS)]
    for tab in tabs:
        tab.goto("/machines/demo/console")
        expect(tab.locator(SCREEN)).to_contain_text("guest")
    desk.goto("/machines/demo")
    expect(desk.get_by_role("img", name=re.compile("Processor over"))).to_be_visible()
    tabs[0].fill("#line", "k")
    tabs[0].keyboard.press("Enter")
    for tab in tabs:
        expect(tab.locator(SCREEN)).to_contain_text("guest hears k")


@contextmanager
def flooded(machine: HostedMonitor) -> Iterator[None]:
    """Meanwhile the guest writes a megabyte each second, in colours."""
    over = threading.Event()

    def write() -> None:
        while not over.wait(len(FLOOD) / 1e6):
            assert machine.serial is not None
            machine.serial.feed(FLOOD)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_guest_that_floods_starves_nobody(desk: Page, host: RunningConsole) -> None:
    machine = host.parts.monitors.get("demo")
    assert isinstance(machine, HostedMonitor)
    desk.goto("/machines/demo/console")
    with flooded(machine):
        expect(desk.locator(SCREEN)).to_contain_text("nobody can read")
        press(desk, "Pause")
        expect(desk.locator("h1")).to_contain_text("Paused")
        press(desk, "Resume")
        expect(desk.locator("h1")).to_contain_text("Running")


def test_a_line_that_is_typed_for_a_guest_reaches_it_and_is_kept_nowhere(desk: Page) -> None:
    desk.goto("/machines/demo/console")
    desk.fill("#line", "ab")
    desk.keyboard.press("Enter")
    expect(desk.locator(SCREEN)).to_contain_text("guest hears b")
    expect(desk.locator("#line")).to_have_value("")
    expect(desk.locator("#line")).to_be_focused()
    assert violations(desk) == []
    desk.fill("#line", "my-password")
    desk.reload()
    expect(desk.locator("#line")).to_have_value("")
    stored = "JSON.stringify({...sessionStorage}) + JSON.stringify({...localStorage})"
    assert "my-password" not in desk.evaluate(stored)


def test_a_hidden_page_asks_for_nothing(desk: Page) -> None:
    desk.clock.install()
    desk.goto("/machines/demo/console")
    desk.fill("#line", "h")
    desk.keyboard.press("Enter")
    expect(desk.locator(SCREEN)).to_contain_text("guest hears h")
    desk.evaluate(HIDE, True)
    asked: list[str] = []
    desk.on("request", lambda request: asked.append(request.url))
    desk.clock.run_for(20_000)
    desk.wait_for_timeout(300)
    assert [url for url in asked if "/machines/" in url] == []


def test_the_list_says_as_of_when_it_was_read(desk: Page) -> None:
    as_of, moment = desk.locator("time[data-asof]"), "time => Date.parse(time.dateTime)"
    desk.route("**/states*", lambda route: route.abort())
    desk.goto("/")
    shown = as_of.evaluate(moment)
    for _ in range(2):  # the other part of the page is read anew
        with desk.expect_response("**/host"):
            pass
    assert as_of.evaluate(moment) == shown
    before = as_of.get_attribute("datetime") or ""
    desk.unroute("**/states*")
    expect(as_of).not_to_have_attribute("datetime", before)


def test_a_console_that_is_gone_is_told_within_seconds(chromium: Browser) -> None:
    with hosting_console() as console, alice_at(chromium, console) as page:
        page.goto("/machines/demo")
        page.wait_for_load_state()
        page.context.set_offline(True)
        expect(page.locator("#silent")).to_contain_text("The console has not responded for")
        assert violations(page) == []
        page.context.set_offline(False)
        expect(page.locator("#silent")).to_have_count(0)


def test_the_page_keeps_its_address_and_its_folds(visit: Visit) -> None:
    page, other = visit(), visit()
    assert page.url.endswith("/machines/demo")
    set_up(page)
    page.wait_for_url("**/machines/demo")  # by the script, after the page is shown
    other.goto("/machines/demo/devices")
    unfold(other, "Grow")
    other.reload()
    other.eval_on_selector_all("main details", "all => all.forEach(one => one.remove())")
    other.reload()  # as after a page of the machine that was busy, and had fewer folds
    press(page, "Start")
    expect(other.locator("h1")).to_contain_text("Running")
    expect(other.locator("#growth-size_mib-rootfs")).to_be_visible()


def test_a_question_names_the_machine_and_its_state_before_anything_is_done(
    visit: Visit, console: RunningConsole
) -> None:
    page = visit()
    set_up(page)
    press(page, "Start")
    expect(page.get_by_role("status")).to_have_text("The machine is running.")
    asked: list[str] = []

    def dismiss(dialog: Dialog) -> None:
        asked.append(dialog.message)
        dialog.dismiss()

    page.once("dialog", dismiss)
    press(page, "Ctrl+Alt+Del")
    assert re.match(r"demo is Running(, up \d+ s)?\.\n\nSend Ctrl\+Alt\+Del\?", asked[0])
    expect(page.get_by_role("status")).to_have_text("The machine is running.")
    assert console.state() == "Running"
