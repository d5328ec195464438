"""Machines whose monitors the console starts: created, ended, started again, deleted, kept."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.console.host import Host, Launch
from examples.console.settings import SettingsError
from tests.console.browser import Browser, create, delete
from tests.console.running import ALICE, BOB, RunningConsole, hosting_console, pid_of, signed_in


@pytest.fixture
def alice(host: RunningConsole) -> Iterator[Browser]:
    with signed_in(host, ALICE) as browser:
        yield browser


@pytest.mark.parametrize(
    ("field", "typed", "sentence"),
    [
        ("new.name", "Web", "Small letters, digits and hyphens, at most 32. Small"),
        ("new.name", "../web", "Small letters, digits and hyphens, at most 32. Small"),
        ("new.name", "", "Field required."),
        ("new.name", "demo", "There is a machine called demo."),
        (
            "boot_source.kernel_image_path",
            "/nowhere",
            "/nowhere is in none of the folders whose files machines may use.",
        ),
        ("machine_config.vcpu_count", "33", "Input should be less than or equal to"),
    ],
)
def test_a_machine_that_cannot_be_made_leaves_nothing_but_what_was_typed(
    alice: Browser, field: str, typed: str, sentence: str
) -> None:
    alice.open_until("demo Running", "/")
    alice.open("/new")
    alice.click("Create machine", {"new.name": "other", field: typed})
    alice.require(422, sentence)
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
    assert re.search(r"watched Running up \d+ (s|min) Processor \d+ % · Memory \d+ MiB", alice.text)


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
        alice.click("Start", sees="stopped Running")
        for name in ("demo", "fresh", "kept", "stopped"):
            delete(alice, name)
    assert list((tmp_path / "machines" / "machines").iterdir()) == []


def test_a_folder_belongs_to_one_console_and_not_to_a_later_release(tmp_path: Path) -> None:
    launch = Launch(["firecracker"], tmp_path, outlive=True)
    host = Host(launch, {})
    with pytest.raises(SettingsError, match="controls the machines"):
        Host(launch, {})
    asyncio.run(host.close())
    asyncio.run(Host(launch, {}).close())
    (launch.machines / "format.json").write_text('{"format": 99}')
    with pytest.raises(SettingsError, match="cannot use"):
        Host(launch, {})


# A console without machines: the way to the first one, simulated or real


def test_without_machines_the_page_shows_the_way_to_the_first() -> None:
    with hosting_console(is_empty=True) as console, signed_in(console, ALICE) as alice:
        steps = ["Have what it needs", "Create it", "Watch it"]
        assert [one for one in alice.page.headings if one in steps] == steps
        assert "machines are simulated" in alice.text
        with signed_in(console, BOB) as bob:
            assert "an admin creates it" in bob.text
            assert "Create a machine" not in bob.page.links
        alice.open(alice.page.links["Create a machine"])
        alice.click("Create machine", {"new.name": "first"}, sees="first Running")
        alice.open("/?find=nobody", sees="No machine's name or state has this text.")
        assert "From nothing to a running machine" not in alice.page.headings
        assert alice.page.links["All machines"] == "/"
