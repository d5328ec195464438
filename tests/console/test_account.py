"""The account menu: one person's sessions in several browsers, and their ends."""

import asyncio
import re
from collections.abc import Iterator
from urllib.parse import urlencode

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
def test_one_lands_nowhere_else(desk: Browser, elsewhere: str) -> None:
    desk.open(f"/signed-out?{urlencode({'back': elsewhere})}")
    assert desk.page.links["Sign in again"] == "/"


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
