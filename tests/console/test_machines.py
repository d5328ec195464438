"""Several monitors: each with its state, none slowed down by another."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest

from generated_vmm import API_VERSION
from generated_vmm.testing import SimulatedMonitor
from tests.console.browser import Browser
from tests.console.running import running_console


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    """A console of a monitor that works, one that is gone and one that never answers."""
    sockets = {name: str(tmp_path / f"{name}.socket") for name in ("web", "gone", "silent")}
    with ExitStack() as stack:
        stack.enter_context(SimulatedMonitor(sockets["web"]))
        silent = stack.enter_context(socket.socket(socket.AF_UNIX))
        silent.bind(sockets["silent"])
        silent.listen()
        console = stack.enter_context(running_console(sockets))
        browser = stack.enter_context(Browser(console.url))
        browser.home()
        browser.click("AA Alice Admin")
        yield browser


def test_each_has_its_state(browser: Browser) -> None:
    assert browser.path == "/"
    assert "web Not started" in browser.text
    assert "gone No answer" in browser.text
    assert "silent No answer" in browser.text


@pytest.fixture
def long_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("examples.console.monitors.LOOK_SECONDS", 60.0)


def test_one_that_never_answers_does_not_hold_the_list_up(
    long_looks: None, browser: Browser
) -> None:
    began = time.monotonic()
    browser.home()
    assert time.monotonic() - began < 20
    assert browser.status == 200


def test_the_list_can_be_asked_for_alone(browser: Browser) -> None:
    browser.home()
    answer = httpx.get(urljoin(browser.url, "/states"), cookies=browser.cookies, timeout=60)
    assert answer.json()["order"] == ["web", "gone", "silent"]


def test_each_has_its_page(browser: Browser) -> None:
    browser.open(browser.page.links["web"])
    assert f"Firecracker {API_VERSION}" in browser.text
    browser.open("/machines/silent")
    assert "The monitor took too long to respond." in browser.text
