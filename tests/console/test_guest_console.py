"""The guest's console in the page: read by everybody, written by admins, over with the session."""

from collections.abc import Iterator

import httpx
import pytest

from examples.console.hosted import HostedMonitor
from generated_vmm import VmmTimeoutError
from generated_vmm.process import AsyncSerial
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


def test_a_viewer_reads_and_is_offered_no_way_to_type(alice: Browser, bob: Browser) -> None:
    alice.click("Send", {"line": "z"})
    bob.open_until("guest hears z guest hears")
    assert not bob.has_button("Send")


def streamed(browser: Browser, position: str = "") -> httpx.Response:
    """What the page's terminal is sent now."""
    answer = browser.ask("/machines/demo/console/stream", position=position, seconds=0)
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "no-store"
    return answer


def position_after(answer: httpx.Response) -> str:
    name, _, start = answer.headers["Stream-Position"].partition(".")
    return f"{name}.{int(start) + len(answer.content)}"


def test_a_terminal_gets_what_came_since_its_position(alice: Browser) -> None:
    while b"Login Service" not in (first := streamed(alice)).content:
        pass  # the drivers of the guest are not up
    assert first.headers["Stream-Reset"] == "1"
    assert b"\x1b[1;32m" in first.content
    position, got = position_after(first), b""
    assert streamed(alice, position + "9" * 5000).headers["stream-reset"] == "1"
    alice.click("Send", {"line": "y"})
    alice.open_until("guest hears y")
    while b"guest hears y" not in got:
        more = streamed(alice, position)
        assert more.headers["Stream-Reset"] == "0"
        position, got = position_after(more), got + more.content
    assert b"Journal Service" not in got
    again = streamed(alice, "of-another-console.7")
    assert again.headers["Stream-Reset"] == "1"
    assert again.content.startswith(first.content[:100])


def test_a_stream_waits_for_output_and_ends_with_its_time(
    alice: Browser, host: RunningConsole
) -> None:
    url = f"{host.url}/machines/demo/console/stream"
    asked = {"position": position_after(streamed(alice)), "seconds": "15"}
    with httpx.stream("GET", url, params=asked, cookies=alice.cookies, timeout=60) as answer:
        alice.click("Send", {"line": "m"})
        got = b""
        for part in answer.iter_bytes():
            got += part
            if b"guest hears m" in got:
                break
    assert alice.ask("/machines/demo/console/stream", seconds=16).status_code == 422


def test_keys_go_to_the_guest_as_they_are(alice: Browser) -> None:
    alice.click("Send", {"text": "q\tw"})
    assert alice.path == "/machines/demo/console"
    alice.open_until("guest hears w")
    answer = alice.ask("/machines/demo/console/log")
    assert "attachment" in answer.headers["content-disposition"]
    assert "guest hears q" in answer.text
    assert "\x1b[1;32m" in answer.text


@pytest.mark.parametrize("is_taken", [True, False])
def test_typing_is_written_down_once_and_never_what_was_typed(
    alice: Browser, host: RunningConsole, monkeypatch: pytest.MonkeyPatch, *, is_taken: bool
) -> None:
    monitor = host.host.get("demo")
    assert isinstance(monitor, HostedMonitor)
    monitor.typed_at.clear()

    def typed() -> int:
        host.host.records.settle()
        return sum(one.times for one in monitor.events.latest(99) if "Typed" in one.what)

    async def in_part(*_: object) -> None:
        raise VmmTimeoutError("the guest did not take all of it")

    before = typed()
    if not is_taken:
        monkeypatch.setattr(AsyncSerial, "write", in_part)
    for _ in range(3):
        alice.open("/machines/demo/console")
        alice.click("Send", {"line": "s3cret-word"})
        assert alice.status == (200 if is_taken else 502)
    assert typed() == before + 1
    alice.open("/machines/demo", sees="Typed into the guest's console.")
    assert "s3cret" not in alice.text


def test_what_a_page_of_an_earlier_start_sends_is_not_typed(alice: Browser) -> None:
    alice.click("Send", {"line": "J", "page": "Running|1|0|"})
    alice.require(409, "Nothing was typed: this page is of an earlier start of the machine.")
    assert "guest hears J" not in alice.text


def test_the_size_of_the_screen_is_chosen(alice: Browser) -> None:
    for size in ("132x43", "9999x9999"):
        alice.click("Set", {"size": size})
        screen = alice.ask("/machines/demo/console/screen").text
        assert screen.count("<div>") == 43
