"""The console in Chromium: quiet, alive, and of one mind in several tabs."""

import asyncio
import re
from threading import Thread

from playwright.sync_api import Route, expect

from tests.browser.element import eventually
from tests.console.in_chromium.pages import PATIENCE, Visit, press, set_up, unfold
from tests.console.running import RunningConsole

TELL_BUTTON = """addEventListener('submit', ({ submitter }) =>
  setTimeout(() => tell(`${submitter.textContent} ${submitter.ariaBusy}`)))"""
ELSEWHERE = re.compile(r"/signed-out\?why=elsewhere")


def test_what_was_typed_survives_the_end_of_the_session(visit: Visit) -> None:
    page, other = visit(), visit()
    page.goto("/machines/demo/devices")
    unfold(page, "Add a network interface")
    page.fill("#network-host_dev_name", "tap7")
    unfold(page, "Add a drive")
    page.check("#drive-is_read_only")
    other.click("summary")
    press(other, "Sign out everywhere")
    page.wait_for_url(ELSEWHERE, timeout=PATIENCE)
    page.get_by_role("link", name="Sign in again").click()
    page.wait_for_url("**/machines/demo/devices")
    expect(page.locator("#network-host_dev_name")).to_have_value("tap7")
    expect(page.locator("#network-host_dev_name")).to_be_visible()
    expect(page.locator("#drive-is_read_only")).to_be_checked()
    expect(page.get_by_role("alert")).to_contain_text("filled in again")
    page.fill("#network-iface_id", "eth0")
    press(page, "Add network interface")
    expect(page.get_by_role("status")).to_have_text("The network interface is added.")
    expect(page.locator("#network-host_dev_name")).to_have_value("")
    page.goto("/new")
    page.fill("#new-name", "typed")
    press(page, "Create machine")
    expect(page.get_by_role("status")).to_be_visible()
    page.wait_for_load_state()  # its script forgets the draft
    page.goto("/new")
    expect(page.locator("#new-name")).to_have_value("")


def test_a_reload_repeats_nothing(visit: Visit, console: RunningConsole) -> None:
    page = visit()
    page.fill("#machine_config-vcpu_count", "many")
    press(page, "Save setup")
    expect(page.get_by_role("alert")).to_contain_text("see the marked fields")
    page.wait_for_url("**/machines/demo")  # the script has put the page's own address there
    page.reload()
    expect(page.get_by_role("alert")).to_have_count(0)
    assert len(console.host.hosted[0].events.latest(9)) == 1


def test_what_was_typed_is_not_thrown_away(visit: Visit) -> None:
    page, other = visit(), visit()
    other.fill("#machine_config-mem_size_mib", "256")
    set_up(page)
    press(page, "Start")
    expect(other.get_by_role("alert")).to_contain_text("The machine has changed meanwhile.")
    expect(other.locator("#machine_config-mem_size_mib")).to_have_value("256")


def test_long_work_shows_progress_and_is_not_begun_twice(
    visit: Visit, console: RunningConsole
) -> None:
    page = visit()
    set_up(page)
    sent: list[Route] = []
    shown: list[str] = []
    page.expose_function("tell", lambda text: shown.append(text))
    page.evaluate(TELL_BUTTON)
    page.route("**/machines/demo/start", lambda route: sent.append(route))
    page.get_by_role("button", name="Start", exact=True).dblclick(no_wait_after=True)
    eventually(page, lambda: bool(sent and shown))
    for route in sent:
        route.continue_()
    expect(page.get_by_role("status")).to_have_text("The machine is running.")
    assert set(shown) == {"Starting… true"}
    done = [event.what for event in console.host.hosted[0].events.latest(9)]
    assert done.count("The machine is running.") == 1


def test_a_logout_at_the_provider_is_noticed_within_seconds(
    visit: Visit, console: RunningConsole
) -> None:
    page = visit("bob")
    provider = console.parts.provider
    assert provider is not None
    # Playwright's own event loop runs on this thread.
    logout = Thread(target=lambda: asyncio.run(provider.log_out("bob")))
    logout.start()
    logout.join()
    page.wait_for_url(ELSEWHERE, timeout=PATIENCE)
    expect(page.get_by_role("heading")).to_have_text("Signed out")
    expect(page.get_by_text("You were signed out")).to_be_visible()


def test_the_account_menu_closes_at_a_click_outside(visit: Visit) -> None:
    page = visit()
    page.click("summary")
    everywhere = page.get_by_role("button", name="Sign out everywhere")
    expect(everywhere).to_be_visible()
    page.click("#everywhere")
    expect(everywhere).to_be_visible()
    page.click("h1")
    expect(everywhere).to_be_hidden()
