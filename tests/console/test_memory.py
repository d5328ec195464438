"""The balloon, memory on top, and what is drawn of it."""

from __future__ import annotations

from pathlib import Path

from generated_vmm import VmmClient
from generated_vmm.testing import SimulatedMonitor
from tests.console.browser import Browser
from tests.console.machines import start
from tests.console.running import running_console, signed_in


def test_a_machine_without_a_balloon_says_so(alice: Browser) -> None:
    start(alice, "memory")
    assert "This machine has no balloon." in alice.text
    assert "Memory on top was not set up before the start." in alice.text
    assert not alice.has_button("Resize balloon")
    assert not alice.has_button("Ask for this size")


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
