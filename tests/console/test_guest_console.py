"""The guest's console in the page: read by everybody, written by admins, over with the session."""

from __future__ import annotations

import json
from collections.abc import Iterator

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


def events(browser: Browser, host: RunningConsole, headers: dict[str, str]) -> Iterator[str]:
    """The lines of a stream, in a connection of its own."""
    url = f"{host.url}/machines/demo/console/stream"
    accept = {"Accept": "text/event-stream", **headers}
    with (
        httpx.Client(cookies=browser.cookies, timeout=20) as client,
        client.stream("GET", url, headers=accept) as answer,
    ):
        assert answer.status_code == 200
        assert answer.headers["Cache-Control"] == "no-store"
        yield from answer.iter_lines()


def test_the_stream_goes_on_where_it_was(alice: Browser, host: RunningConsole) -> None:
    alice.click("Send", {"line": "x"})
    alice.open_until("guest hears x")
    lines = events(alice, host, {})
    assert "guest hears x" in next(line for line in lines if line.startswith("data: "))
    position = next(line for line in events(alice, host, {}) if line.startswith("id: "))
    later = events(alice, host, {"Last-Event-ID": position.removeprefix("id: ")})
    next(later)
    alice.click("Send", {"line": "y"})
    data = next(line for line in later if line.startswith("data: "))
    assert "guest hears y" in data or "guest hears \\n" in data
    assert "guest hears x" not in data


def test_the_stream_is_refused_without_a_session(host: RunningConsole) -> None:
    url = f"{host.url}/machines/demo/console/stream"
    answer = httpx.get(url, headers={"Accept": "text/event-stream"})
    assert answer.status_code == 401


def test_the_stream_ends_with_the_session(bob: Browser, host: RunningConsole) -> None:
    lines = events(bob, host, {})
    next(lines)
    bob.click("Sign out everywhere")
    list(lines)


def test_colours_are_in_the_page_and_in_the_stream(alice: Browser, host: RunningConsole) -> None:
    assert "[ OK ] Started Journal Service" in alice.text
    runs = first_runs(alice, host, {})
    assert ["OK", "c2 bold"] in runs
    assert ["Journal Service", "bold"] in runs


def test_a_stream_goes_on_in_the_colour_in_which_the_page_ended(
    alice: Browser, host: RunningConsole
) -> None:
    written = "".join(text for text, _ in first_runs(alice, host, {}))
    inside = written.index("Service") + len("\x1b[1;32m\x1b[0m\x1b[1m")
    assert first_runs(alice, host, {"Last-Event-ID": str(inside)})[0] == ["Service", "bold"]


def first_runs(browser: Browser, host: RunningConsole, headers: dict[str, str]) -> list[list[str]]:
    """Text and classes of the first event of a stream."""
    lines = events(browser, host, headers)
    line = next(line for line in lines if line.startswith("data: "))
    runs: list[list[str]] = json.loads(line.removeprefix("data: "))
    return runs
