"""Two who operate machines, a viewer and a stranger, at the same time."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.console.in_chromium.pages import PATIENCE, Visit, in_list, visiting
from tests.console.running import RunningConsole

POST = """async (address) => {
  const csrf_token = document.querySelector('[name="csrf_token"]')?.value ?? ''
  const body = new URLSearchParams({ csrf_token, confirmed: 'yes' })
  const headers = { Accept: 'application/json' }
  return (await fetch(address, { method: 'POST', body, headers })).status
}"""
"""Sends the form of a button that the page does not have."""
GET = (
    "async (address) => (await fetch(address, { headers: { Accept: 'application/json' } })).status"
)


@pytest.fixture
def person(chromium: Browser, host: RunningConsole) -> Iterator[Visit]:
    with visiting(chromium, host) as sign_in:
        yield sign_in


def row(page: Page) -> Locator:
    return in_list(page, "demo")


def button(page: Page, label: str) -> Locator:
    return row(page).get_by_role("button", name=f"{label} demo")


def test_two_operators_a_viewer_and_a_stranger(person: Visit) -> None:
    alice, carol, bob, stranger = (person(name) for name in ("alice", "carol", "bob", ""))

    button(carol, "Pause").click()
    for page in (alice, carol, bob):  # without a reload
        expect(row(page)).to_contain_text("Paused", timeout=PATIENCE)

    alice.route("**/states*", lambda route: route.abort())  # she sees what was
    button(carol, "Resume").click()
    expect(row(bob)).to_contain_text("Running", timeout=PATIENCE)
    button(alice, "Resume").click()
    told = alice.get_by_role("alert")
    expect(told).to_contain_text("demo was Paused on this page and is Running now.")
    expect(told).to_contain_text("Carol Operator did it at")

    expect(row(bob).get_by_role("button")).to_have_count(0)
    expect(bob.get_by_role("link", name="New machine")).to_have_count(0)
    assert bob.evaluate(POST, "/machines/demo/pause") == 403

    expect(stranger.locator("body")).not_to_contain_text("demo Running")
    host = carol.url.removesuffix("/")
    stranger.goto(f"{host}/signed-out")
    assert stranger.evaluate(GET, "/states") == 401
    assert stranger.evaluate(POST, "/machines/demo/pause") in (401, 403)

    button(carol, "Stop").focus()
    carol.once("dialog", lambda dialog: dialog.accept())
    carol.keyboard.press("Enter")
    for page in (carol, bob):
        expect(row(page)).to_contain_text("Ended", timeout=PATIENCE)
