"""The balloon, and memory on top."""

from __future__ import annotations

import pytest

from tests.console.browser import Browser
from tests.console.machines import start
from tests.console.running import running_console, signed_in


@pytest.fixture
def memory(alice: Browser) -> Browser:
    alice.open("/machines/demo/memory")
    return alice


def test_a_balloon_larger_than_the_memory_is_told_at_its_field(memory: Browser) -> None:
    memory.click("Save balloon", {"balloon.amount_mib": "4096"})
    assert memory.status == 422
    plain = "That is more than the machine has."
    fault = "Balloon config error: Amount of pages requested is too large."
    assert f"Size in MiB {plain} The monitor's words {fault}" in memory.text


def test_the_balloon_is_resized_after_the_start(memory: Browser) -> None:
    memory.click("Save balloon", {"balloon.amount_mib": "16"})
    start(memory, "memory")
    assert memory.field("balloon_size.amount_mib") == "16"
    memory.click("Resize balloon", {"balloon_size.amount_mib": "32"})
    assert "Asked for 32 MiB Given up 32 MiB" in memory.text


def test_a_machine_without_a_balloon_says_so(memory: Browser) -> None:
    start(memory, "memory")
    assert "This machine has started without a balloon." in memory.text
    assert not memory.has_button("Resize balloon")


@pytest.mark.since("1.14")
def test_hints_are_asked_for_and_stopped(memory: Browser) -> None:
    memory.click("Save balloon", {"balloon.free_page_hinting": "true"})
    start(memory, "memory")
    assert "Hints last command of the host 0, of the guest none" in memory.text
    memory.click("Ask for hints", {"hints.acknowledge_on_stop": ""})
    assert "Hints last command of the host 2, of the guest 0" in memory.text
    memory.click("Stop the hints")
    assert "Hints last command of the host 1, of the guest 0" in memory.text


@pytest.mark.since("1.14")
def test_hints_that_were_not_allowed_are_not_offered(memory: Browser) -> None:
    memory.click("Save balloon")
    start(memory, "memory")
    assert "Hints were not allowed before the start." in memory.text
    assert not memory.has_button("Ask for hints")


@pytest.mark.since("1.14")
def test_memory_is_given_and_taken_back(memory: Browser) -> None:
    memory.click("Save limit", {"memory_hotplug.total_size_mib": "256"})
    start(memory, "memory")
    for size in ("128", "0"):
        memory.click("Ask for this size", {"memory_size.requested_size_mib": size})
        assert f"Asked for {size} MiB Taken by the guest {size} MiB" in memory.text


@pytest.mark.since("1.14")
def test_memory_on_top_that_was_not_set_up_is_not_offered(memory: Browser) -> None:
    start(memory, "memory")
    assert "Memory on top was not set up before the start." in memory.text
    assert not memory.has_button("Ask for this size")


@pytest.mark.since("1.14")
def test_sizes_that_do_not_fit_are_told_at_their_field(memory: Browser) -> None:
    typed = {"memory_hotplug.total_size_mib": "256", "memory_hotplug.block_size_mib": "3"}
    memory.click("Save limit", typed)
    assert "Pieces of the guest, in MiB These sizes do not fit together." in memory.text


def test_the_guests_figures_are_told(memory: Browser) -> None:
    memory.click("Save balloon")
    start(memory, "memory")
    assert "The guest's memory 128 MiB" in memory.text


def test_the_guests_memory_is_drawn(memory: Browser) -> None:
    memory.click("Save balloon", {"balloon.amount_mib": "16"})
    start(memory, "memory")
    memory.open_until("In the balloon 16 MiB", "/machines/demo/overview")
    assert "128 MiB" in memory.text
    memory.open("/machines/demo/charts")
    assert "In the balloon 16 MiB" in memory.text


def test_without_statistics_there_is_nothing_to_draw() -> None:
    with running_console() as console, signed_in(console) as alice:
        start(alice, "memory")
        alice.open("/machines/demo/overview")
        assert "In use" not in alice.page.headings
        alice.open("/machines/demo/charts")
        assert alice.text == ""
