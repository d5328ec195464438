"""The main job, end to end over real sockets: sign in, set up, start, pause, resume, sign out."""

import re

from tests.console.browser import Browser
from tests.console.running import RunningConsole


def test_from_signing_in_to_signing_out(console: RunningConsole) -> None:
    with Browser(console.url) as browser:
        browser.home()
        assert "Sign in to microvm-console" in browser.text
        browser.click("AA Alice Admin")
        browser.open("/machines/demo", sees="Alice Admin admin")
        assert "Not started" in browser.text

        browser.click("Save setup", {"machine_config.vcpu_count": "2"}, sees="Setup saved.")
        assert browser.field("machine_config.vcpu_count") == "2"

        browser.click("Start", sees="The machine is running.")
        assert console.state() == "Running"
        browser.click("Pause")
        assert console.state() == "Paused"
        browser.click("Resume")
        assert console.state() == "Running"

        browser.click("Sign out everywhere", sees="You have signed out of the console.")
        browser.home()
        assert "Sign in to microvm-console" in browser.text


def test_signing_out_of_the_console_alone_leaves_the_provider_signed_in(alice: Browser) -> None:
    alice.click("Sign out here only")
    assert alice.path == "/signed-out"
    alice.home()
    assert alice.path == "/"


def test_a_guest_that_is_shut_down_takes_its_monitor_along(alice: Browser) -> None:
    for button in ("Save setup", "Start", "Ctrl+Alt+Del"):
        alice.click(button)
    assert "The guest was sent Ctrl+Alt+Del." in alice.text
    alice.open_until("demo Ended", "/machines/demo")


def test_the_page_comes_back_after_signing_in(console: RunningConsole) -> None:
    with Browser(console.url) as browser:
        browser.home()
        browser.open(f"{console.url}/machines/demo?done=setup")
        browser.click("AA Alice Admin")
        assert browser.url.endswith("/machines/demo?done=setup")


def test_a_started_machine_shows_what_it_was_started_with(
    alice: Browser, console: RunningConsole
) -> None:
    alice.click("Save setup")
    alice.click("Start")
    assert console.host.suggestions["boot_source.kernel_image_path"] in alice.text
    assert not alice.has_button("Save setup")


def test_the_overview_says_who_did_what_and_who_tried_in_vain(alice: Browser) -> None:
    page = {"csrf_token": alice.field("csrf_token"), "page": alice.field("page")}
    alice.post("/machines/demo/start", page)
    alice.click("Save setup")
    alice.open("/machines/demo/overview")
    assert re.search(r"Events Setup saved\. just now Alice Admin", alice.text)
    tried = r"Tried to start a machine\. just now Alice Admin The machine has no kernel yet"
    assert re.search(tried, alice.text)
