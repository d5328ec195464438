"""The account menu: one person's sessions in several browsers, and their ends."""

import asyncio
import re
from collections.abc import Iterator

import pytest

from tests.console.browser import Browser
from tests.console.running import BOB, RunningConsole, signed_in


@pytest.fixture
def desk(console: RunningConsole) -> Iterator[Browser]:
    with signed_in(console) as browser:
        yield browser
        browser.home()
        if browser.has_button("Sign out everywhere"):
            browser.click("Sign out everywhere")


@pytest.fixture
def phone(desk: Browser, console: RunningConsole) -> Iterator[Browser]:
    """Another browser of the person at the desk."""
    with signed_in(console) as browser:
        yield browser


def is_signed_in(browser: Browser) -> bool:
    """Whether the console knows the browser, which may be known at the provider all the same."""
    return browser.ask("/machines/demo/state").status_code == 200


def test_the_menu_lists_this_persons_sessions_alone(
    desk: Browser, phone: Browser, console: RunningConsole
) -> None:
    with signed_in(console, BOB):
        desk.home()
    assert desk.text.count("Since ") == 2
    assert desk.text.count("this one") == 1
    assert desk.text.count("Last seen ") == 1


def test_one_session_is_ended_and_one_lands_where_one_was(desk: Browser, phone: Browser) -> None:
    desk.open("/machines/demo/devices")
    desk.click("End")
    assert desk.path == "/machines/demo/devices"
    assert len(re.findall("Since just now|Since [0-9]+ min", desk.text)) == 1
    assert not is_signed_in(phone)
    assert is_signed_in(desk)


def test_the_session_of_somebody_else_is_not_ended(
    desk: Browser, phone: Browser, console: RunningConsole
) -> None:
    with signed_in(console, BOB) as bob, signed_in(console, BOB):
        bob.home()
        sessions = bob.text.count("Since ")
        of_bob = next(form for form in bob.page.forms if form.action == "/account/end-session")
        desk.home()
        desk.click("End", {"session_id": of_bob.fields["session_id"]})
        bob.home()
        assert bob.text.count("Since ") == sessions
    assert is_signed_in(phone)


def test_signing_out_everywhere_ends_every_session_of_this_person_alone(
    desk: Browser, phone: Browser, console: RunningConsole
) -> None:
    with signed_in(console, BOB) as bob:
        desk.click("Sign out everywhere", sees="You have signed out of the console.")
        assert not is_signed_in(desk)
        assert not is_signed_in(phone)
        assert is_signed_in(bob)
    desk.home()
    assert "Sign in to microvm-console" in desk.text


@pytest.mark.parametrize(
    "elsewhere", ["https://evil.example/", "//evil.example", "/\t/evil.example", "/\\evil.example"]
)
def test_one_lands_nowhere_else(desk: Browser, phone: Browser, elsewhere: str) -> None:
    desk.home()
    desk.click("End", {"return_to": elsewhere})
    assert desk.path == "/"
    assert desk.status == 200


def test_signing_out_of_the_console_alone_leaves_the_provider_signed_in(alice: Browser) -> None:
    alice.click("Sign out here only")
    assert alice.path == "/signed-out"
    alice.home()
    assert alice.path == "/"


# The session in the console: who, until when, and when it is over elsewhere


def test_the_page_says_who_and_until_when(alice: Browser) -> None:
    assert re.search(r"Alice Admin Roles: admin Signed in until \d\d:\d\d UTC", alice.text)


def test_a_logout_at_the_provider_ends_the_session_here(
    alice: Browser, console: RunningConsole
) -> None:
    assert console.parts.provider is not None
    asyncio.run(console.parts.provider.log_out("alice"))
    alice.click("Save setup")
    alice.require(401, "Your session has ended")
    assert not console.machine().definition.can_boot
