"""What the demo shows: a guest calls a calendar as Alice, without her tokens, until she leaves."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.chromium import violations
from tests.console.in_chromium.pages import PATIENCE, Visit, press, visiting
from tests.console.running import hosting_console
from tests.programs import require_terminals

GUEST = "/machines/demo/guest"
ROWS = ".xterm-rows"
CALL = "curl http://calendar.internal/events\n"


@pytest.fixture
def person(chromium: Browser) -> Iterator[Visit]:
    """Signs a person in to one console; a terminal out of sight would draw nothing."""
    require_terminals()
    size = ViewportSize(width=1280, height=2000)
    with hosting_console(simulated_agent=True) as house, visiting(chromium, house) as sign_in:

        def at_a_large_screen(name: str) -> Page:
            page = sign_in(name, viewport=size)
            page.context.set_default_timeout(PATIENCE)
            return page

        yield at_a_large_screen


def test_a_guest_uses_a_calendar_until_its_person_signs_out(person: Visit) -> None:
    alice = person("alice")
    alice.goto(GUEST)
    assert violations(alice) == []
    press(alice, "Give access")
    access = alice.get_by_role("region", name="Access to APIs")
    expect(access).to_contain_text("Alice Admin has given it calendar.internal until")
    press(alice, "Open a terminal")
    terminal = alice.get_by_role("textbox", name="Screen of the guest")
    screen = alice.locator(ROWS)
    terminal.focus()
    alice.keyboard.type(CALL)
    expect(screen).to_contain_text('["9:00 Stand-up","12:30 Lunch with Bob"]')
    expect(access).to_contain_text("Called GET calendar.internal/events: 200")
    press(alice, "Search the guest for tokens")
    expect(alice.get_by_role("region", name="Output")).to_have_text("No token was found.\n")
    expect(screen).to_contain_text("12:30 Lunch with Bob")
    assert violations(alice) == []

    alice.locator("summary").first.click()
    press(alice, "Sign out here only")
    alice.get_by_role("link", name="Sign in again").click()
    expect(screen).to_contain_text("12:30 Lunch with Bob")
    expect(screen).not_to_contain_text("error: 401")
    terminal.focus()
    alice.keyboard.type(CALL)
    expect(screen).to_contain_text("The requested URL returned error: 401")
    expect(access).to_contain_text("that Alice Admin gave has ended. Its person has signed out.")
    expect(access).to_contain_text("Called GET calendar.internal/events: 401.")
    alice.keyboard.type("exit\n")
    expect(screen).to_contain_text("[the end]")
    alice.goto(GUEST)
    expect(alice.get_by_role("button", name="Open a terminal")).to_be_visible()
    alice.set_viewport_size(ViewportSize(width=390, height=2000))
    assert alice.evaluate("document.documentElement.scrollWidth") == 390
