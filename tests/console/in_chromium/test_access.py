"""What the demo shows: a guest calls a calendar as Alice, without her tokens, until she leaves."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.chromium import ending, violations
from tests.console.in_chromium.pages import PATIENCE, Visit, press, visiting
from tests.console.running import hosting_console
from tests.programs import require_terminals

GUEST = "/machines/demo/guest"
ROWS = ".xterm-rows"
CALL = "curl http://calendar.internal/events\n"
CALLS = "while sleep 0.3; do curl -so /dev/null -w 'got=%{http_code} ' $API; done"


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
    expect(screen).not_to_contain_text("401")
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


def test_others_see_a_call_wait_for_its_person_and_the_access_end(
    person: Visit,
) -> None:
    alice, carol = person("alice"), person("carol")
    alice.goto(GUEST)
    press(alice, "Give access")
    carol.goto(GUEST)
    press(carol, "Open a terminal")
    carol.get_by_role("textbox", name="Screen of the guest").focus()
    carol.keyboard.type("curl --json '\"18:00 Dinner\"' http://calendar.internal/events\n")
    access = alice.get_by_role("region", name="Access to APIs")
    beside = carol.get_by_role("region", name="Access to APIs")
    expect(beside).to_contain_text("waits.")
    with alice.expect_popup() as approval:
        access.get_by_role("link", name="look at it").click()
    assert carol.get_by_role("link", name="look at it").count() == 0
    expect(approval.value.locator("pre")).to_have_text('"18:00 Dinner"')
    press(approval.value, "Approve")
    expect(approval.value.get_by_role("heading")).to_have_text("Approved")
    with ending():
        approval.value.close()
    expect(carol.locator(ROWS)).to_contain_text('Bob","18:00 Dinner"]')
    expect(access).to_contain_text("Called POST calendar.internal/events: 200")

    carol.keyboard.type(f"API=http://calendar.internal/events; {CALLS}\n")
    expect(carol.locator(ROWS)).to_contain_text("got=200")
    expect(carol.locator(ROWS)).not_to_contain_text("got=401")
    alice.locator("summary").first.click()
    press(alice, "Sign out here only")
    expect(carol.locator(ROWS)).to_contain_text("got=401")
    expect(beside).to_contain_text("that Alice Admin gave has ended. Its person has signed out.")
    expect(beside).to_contain_text("Called GET calendar.internal/events: 401.")
