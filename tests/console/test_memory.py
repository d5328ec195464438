"""The balloon, memory on top, and what is drawn of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from generated_vmm import VmmClient
from generated_vmm.testing import SimulatedMonitor
from tests.console.browser import Browser
from tests.console.machines import create, do, start
from tests.console.running import RunningConsole, running_console, signed_in


def test_a_machine_without_a_balloon_says_so(alice: Browser) -> None:
    start(alice, "memory")
    assert "This machine has no balloon." in alice.text
    assert "Memory on top was not set up before the start." in alice.text
    assert not alice.has_button("Resize balloon")
    assert not alice.has_button("Ask for this size")


@pytest.mark.since("1.14")
def test_memory_is_given_and_taken_back(alice: Browser, console: RunningConsole) -> None:
    create(alice, "filled", new__start="")
    do(alice, "filled", "memory", "Save limit", {"memory_hotplug.total_size_mib": "256"})
    alice.click("Start")
    console.server.do(console.drivers_are_up("filled"))
    for size in ("128", "0"):
        typed = {"memory_size.requested_size_mib": size}
        do(alice, "filled", "memory", "Ask for this size", typed)
        assert f"Asked for {size} MiB Taken by the guest {size} MiB" in alice.text
    do(alice, "filled", "memory", "Resize balloon", {"balloon_size.amount_mib": "16"})
    alice.open_until("In the balloon 16 MiB", "/machines/filled/overview")
    alice.open_until("In the balloon 16 MiB", "/machines/filled/charts")
    do(alice, "filled", "overview", "Stop", {})
    alice.click("Start")
    alice.open("/machines/filled/memory")
    assert alice.field("balloon_size.amount_mib") == "16"


def test_without_statistics_there_is_nothing_to_draw(tmp_path: Path) -> None:
    path = str(tmp_path / "vm.socket")
    with (
        SimulatedMonitor(path, check_files=False),
        VmmClient(path) as vm,
        running_console({"demo": path}) as console,
        signed_in(console) as alice,
    ):
        vm.boot("/kernel", "/disk")
        alice.open("/machines/demo/overview")
        assert "In use" not in alice.page.headings
        alice.open("/machines/demo/charts")
        assert alice.text == ""
