"""Two people at one machine: neither undoes without knowing what the other has done."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from examples.console.records import Person
from tests.console.browser import Browser
from tests.console.machines import create
from tests.console.running import ALICE, RunningConsole, signed_in

MEMORY = "machine_config.mem_size_mib"
CAROL, DAVE = Person("carol", "Carol"), Person("dave", "Dave")


@pytest.fixture
def other(console: RunningConsole) -> Iterator[Browser]:
    """Another browser of an admin."""
    with signed_in(console, ALICE) as browser:
        yield browser


def size(console: RunningConsole) -> int | None:
    """The memory that the machine gets."""
    configured = console.machine().definition.configuration.machine_config
    return configured.mem_size_mib if configured else None


def test_who_saves_second_is_told_and_may_save_again(
    alice: Browser, other: Browser, console: RunningConsole
) -> None:
    alice.open("/machines/demo")
    other.open("/machines/demo")
    alice.click("Save setup", {MEMORY: "256"})
    other.click("Save setup", {MEMORY: "512"})
    assert other.status == 409
    assert re.search(
        r"You have changed this elsewhere at \d\d:\d\d:\d\d UTC: Setup saved\.", other.text
    )
    assert "What you typed is still here: save again to replace it." in other.text
    assert other.field(MEMORY) == "512"
    assert size(console) == 256
    other.click("Save setup")
    assert "Setup saved." in other.text
    assert size(console) == 512


def test_what_is_changed_in_another_form_is_no_obstacle(
    alice: Browser, other: Browser, console: RunningConsole
) -> None:
    alice.open("/machines/demo")
    other.open("/machines/demo/memory")
    other.click("Save limit")
    alice.click("Save setup", {MEMORY: "256"})
    assert "Setup saved." in alice.text
    assert size(console) == 256


@pytest.fixture
def hosted(host: RunningConsole) -> Iterator[tuple[Browser, Browser]]:
    """Two browsers of admins, at a console that starts machines."""
    with signed_in(host, ALICE) as one, signed_in(host, ALICE) as other:
        yield one, other


def test_a_machine_that_was_started_meanwhile_is_not_deleted(
    hosted: tuple[Browser, Browser],
) -> None:
    alice, other = hosted
    create(alice, "stale", new__start="")
    other.open("/machines/stale")
    alice.click("Start")
    other.click("Delete")
    assert other.status == 409
    assert "stale was Not started on this page and is Running now." in other.text
    assert re.search(r"You did it elsewhere at [\d:]+ UTC: The machine is running\.", other.text)
    assert "stale Running" in other.text
    other.click("Delete")
    assert other.status == 409
    assert "Stop the machine first." in other.text
    assert "stale Running" in other.text


def test_a_machine_that_was_started_anew_is_not_stopped_by_an_old_page(
    hosted: tuple[Browser, Browser],
) -> None:
    alice, other = hosted
    create(alice, "anew")
    other.open("/machines/anew")
    alice.click("Stop")
    alice.click("Start")
    other.click("Stop")
    assert other.status == 409
    assert "anew has been started anew since this page was made." in other.text
    other.click("Stop")
    assert "anew Ended" in other.text


@pytest.mark.parametrize("page", ["", "|||", "Running||nan", "Running||1e99", "Running"])
def test_a_press_that_no_page_shows_does_nothing(
    alice: Browser, console: RunningConsole, page: str
) -> None:
    alice.open("/machines/demo")
    alice.click("Save setup", {"page": page})
    assert alice.status == 409
    assert "Nothing was done" in alice.text
    assert size(console) is None
