"""The guest's console in the page: read by everybody, written by admins, over with the session."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.console.browser import Browser
from tests.console.running import ALICE, BOB, RunningConsole, signed_in


def at_the_console(host: RunningConsole, name: str) -> Browser:
    browser = signed_in(host, name)
    browser.open_until("demo Running", "/")
    browser.open("/machines/demo/console")
    return browser


@pytest.fixture
def alice(host: RunningConsole) -> Iterator[Browser]:
    with at_the_console(host, ALICE) as browser:
        yield browser


@pytest.fixture
def bob(host: RunningConsole) -> Iterator[Browser]:
    with at_the_console(host, BOB) as browser:
        yield browser


def test_what_an_admin_types_reaches_the_guest(alice: Browser) -> None:
    alice.click("Send", {"line": "ab"})
    assert alice.path == "/machines/demo/console"
    alice.open_until("guest hears a guest hears b guest hears")


def test_a_viewer_reads_and_cannot_type(alice: Browser, bob: Browser) -> None:
    alice.click("Send", {"line": "z"})
    bob.open_until("guest hears z")
    assert not bob.has_button("Send")
    bob.post("/machines/demo/console/input", {"line": "no", "csrf_token": bob.field("csrf_token")})
    assert bob.status == 403
    bob.open("/machines/demo/console")
    assert "guest hears n" not in bob.text


def test_a_form_of_another_session_types_nothing(alice: Browser) -> None:
    alice.click("Send", {"line": "QQQ", "csrf_token": "of somebody else"})
    assert alice.status == 403
    alice.open("/machines/demo/console")
    assert "guest hears Q" not in alice.text


def screen(browser: Browser, host: RunningConsole, seen: str = "") -> dict[str, Any]:
    """What the page's script is told of the screen."""
    url = f"{host.url}/machines/demo/console/screen"
    answer = httpx.get(url, params={"seen": seen}, cookies=browser.cookies, timeout=20)
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "no-store"
    return dict(answer.json())


def test_the_screen_is_sent_when_it_has_changed(alice: Browser, host: RunningConsole) -> None:
    alice.click("Send", {"line": "x"})
    alice.open_until("guest hears x")
    before = settled(alice, host)
    assert "rows" not in screen(alice, host, before["version"])
    alice.click("Send", {"line": "y"})
    alice.open_until("guest hears y")
    after = screen(alice, host, before["version"])
    assert "guest hears y" in text_of(after)


def settled(browser: Browser, host: RunningConsole) -> dict[str, Any]:
    """The screen of a guest that has said all."""
    found = screen(browser, host)
    while (again := screen(browser, host))["version"] != found["version"]:
        found = again
        time.sleep(0.2)
    return found


def text_of(found: dict[str, Any]) -> str:
    return "\n".join("".join(text for text, _ in row) for row in found["rows"])


def test_colours_are_in_the_page_and_in_what_follows(alice: Browser, host: RunningConsole) -> None:
    assert "[ OK ] Started Journal Service" in alice.text
    runs = [run for row in screen(alice, host)["rows"] for run in row]
    assert ["OK", "c2 bold"] in runs
    assert ["Journal Service", "bold"] in runs


def test_keys_go_to_the_guest_as_they_are(alice: Browser, host: RunningConsole) -> None:
    alice.click("Send", {"text": "q\tw"})
    alice.open_until("guest hears w")
    answer = httpx.get(f"{host.url}/machines/demo/console/log", cookies=alice.cookies, timeout=20)
    assert "attachment" in answer.headers["content-disposition"]
    assert "guest hears q" in answer.text
    assert "\x1b[1;32m" in answer.text
    plain = httpx.get(f"{host.url}/machines/demo/console/text", cookies=alice.cookies, timeout=20)
    assert "\x1b" not in plain.text
    assert "Started Journal Service" in plain.text


def test_typing_is_written_down_once_and_never_what_was_typed(alice: Browser) -> None:
    for _ in range(3):
        alice.click("Send", {"line": "s3cret-word"})
    alice.open("/machines/demo")
    assert alice.text.count("Typed into the guest's console.") == 1
    assert "s3cret" not in alice.text


def test_what_a_page_of_an_earlier_start_sends_is_not_typed(alice: Browser) -> None:
    alice.click("Send", {"line": "J", "page": "Running|1|0|"})
    assert alice.status == 409
    assert "Nothing was typed: this page is of an earlier start of the machine." in alice.text
    assert "guest hears J" not in alice.text


def test_the_size_of_the_screen_is_chosen(alice: Browser, host: RunningConsole) -> None:
    alice.click("Set", {"size": "132x43"})
    assert len(screen(alice, host)["rows"]) == 43
    alice.click("Set", {"size": "9999x9999"})
    assert len(screen(alice, host)["rows"]) == 43


def test_a_stranger_sees_no_screen(host: RunningConsole) -> None:
    for path in ("screen", "log", "text"):
        assert httpx.get(f"{host.url}/machines/demo/console/{path}").status_code == 401
