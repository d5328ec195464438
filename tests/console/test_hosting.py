"""Machines whose monitors the console starts: created, ended, started again, deleted, kept."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.console.host import Host
from examples.console.launch import Launch
from examples.console.settings import SettingsError
from tests.console.browser import Browser
from tests.console.machines import create, delete
from tests.console.running import (
    ALICE,
    RunningConsole,
    hosting_console,
    pid_of,
    signed_in,
)


@pytest.fixture
def alice(host: RunningConsole) -> Iterator[Browser]:
    with signed_in(host, ALICE) as browser:
        yield browser


def test_a_host_has_a_machine_that_runs_and_a_fresh_one_at_first(alice: Browser) -> None:
    alice.open_until("demo Running", "/")
    alice.open_until("fresh Not started", "/")
    assert alice.text.index("demo Running") < alice.text.index("fresh Not started")


def test_a_preset_fills_the_form_in(alice: Browser) -> None:
    alice.open("/new?preset=large")
    assert alice.field("machine_config.vcpu_count") == "4"
    assert alice.field("machine_config.mem_size_mib") == "2048"


@pytest.mark.parametrize(
    ("field", "typed", "sentence"),
    [
        ("new.name", "Web", "This is not of the form that is needed."),
        ("new.name", "../web", "This is not of the form that is needed."),
        ("new.name", "", "This is needed."),
        ("new.name", "demo", "There is a machine called demo."),
        (
            "boot_source.kernel_image_path",
            "/nowhere",
            "/nowhere is in none of the folders whose files machines may use.",
        ),
        ("machine_config.vcpu_count", "33", "Must be less than or equal to"),
    ],
)
def test_a_machine_that_cannot_be_made_leaves_nothing_but_what_was_typed(
    alice: Browser, field: str, typed: str, sentence: str
) -> None:
    alice.open_until("demo Running", "/")
    alice.open("/new")
    alice.click("Create machine", {"new.name": "other", field: typed})
    assert alice.status == 422
    assert sentence in alice.text
    assert alice.field(field) == typed
    alice.open("/")
    assert "other" not in alice.page.links


def test_a_machine_is_watched_whether_anybody_looks_or_not(alice: Browser) -> None:
    create(alice, "watched", **{"new_network__host_dev_name": "tap0"})
    charts = "/machines/watched/charts"
    alice.open_until("Processor", charts)
    for title in ("Processor", "Memory", "Disk", "Network"):
        assert title in alice.page.headings
    assert re.search(r"Used \d+ % .*Taken of the host \d+ MiB In the balloon 0 MiB", alice.text)
    assert re.search(r"Read [\d.]+ (Ki)?B/s Written [\d.]+ (Ki)?B/s", alice.text)
    assert re.search(r"Received [\d.]+ (Ki)?B/s Sent [\d.]+ (Ki)?B/s", alice.text)
    alice.open("/")
    assert re.search(r"watched Running up \d+ (s|min) Processor \d+ % Memory \d+ MiB", alice.text)


def test_after_the_end_the_charts_have_a_gap_and_no_figures(alice: Browser) -> None:
    create(alice, "gone")
    alice.open_until("Processor", "/machines/gone/charts")
    alice.open("/machines/gone")
    alice.click("Stop")
    assert "gone Ended" in alice.text
    assert "Memory" in alice.page.headings
    assert not re.search(r"In the balloon \d", alice.text)
    alice.open("/")
    assert "gone Ended" in alice.text
    assert "gone Ended up" not in alice.text


def test_machines_outlive_a_console_that_keeps_them(tmp_path: Path) -> None:
    with hosting_console(tmp_path) as console, signed_in(console, ALICE) as alice:
        alice.open_until("demo Running", "/")
        create(alice, "kept")
        pid = pid_of(console, "kept")
        create(alice, "stopped")
        alice.click("Stop")
    with hosting_console(tmp_path) as console, signed_in(console, ALICE) as alice:
        assert set(alice.page.links) >= {"demo", "fresh", "kept", "stopped"}
        assert "kept Running" in alice.text
        assert "stopped Ended" in alice.text
        assert pid_of(console, "kept") == pid
        alice.open("/machines/stopped")
        alice.click("Start")
        assert "stopped Running" in alice.text
        for name in ("demo", "fresh", "kept", "stopped"):
            delete(alice, name)
    assert list((tmp_path / "machines" / "machines").iterdir()) == []


def test_a_folder_belongs_to_one_console(tmp_path: Path) -> None:
    launch = Launch(["firecracker"], tmp_path, outlive=True)
    host = Host(launch, {})
    with pytest.raises(SettingsError, match="controls the machines"):
        Host(launch, {})
    asyncio.run(host.close())
    asyncio.run(Host(launch, {}).close())


def test_a_folder_of_a_later_release_is_told(tmp_path: Path) -> None:
    launch = Launch(["firecracker"], tmp_path, outlive=True)
    launch.machines.mkdir()
    (launch.machines / "format.json").write_text('{"format": 99}')
    with pytest.raises(SettingsError, match="cannot use"):
        Host(launch, {})
