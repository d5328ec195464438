"""Machines whose monitors the console starts: created, ended, started again, deleted, kept."""

import asyncio
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from examples.console.first_run import Need, needs_of
from examples.console.host import Host
from examples.console.launch import Launch
from examples.console.settings import SettingsError
from examples.console.words import NEEDS
from tests.console.browser import Browser, create, delete
from tests.console.running import ALICE, BOB, RunningConsole, hosting_console, pid_of, signed_in


@pytest.fixture
def alice(host: RunningConsole) -> Iterator[Browser]:
    with signed_in(host, ALICE) as browser:
        yield browser


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
    assert re.search(r"watched Running up \d+ (s|min) Processor \d+ % Memory \d+ MiB", alice.text)


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


def host(tmp_path: Path, program: str, files: Mapping[str, str], jailer: str | None = None) -> Host:
    """A host of real machines, whose records are closed again."""
    made = Host(Launch([program], tmp_path / "console", outlive=True, jailer=jailer), files)
    asyncio.run(made.close())
    return made


def test_a_real_machine_needs_a_program_kvm_a_kernel_and_a_disk(tmp_path: Path) -> None:
    program, kernel, kvm = (tmp_path / name for name in ("firecracker", "vmlinux", "kvm"))
    for path in (program, kernel, kvm):
        path.touch()
    program.chmod(0o700)
    suggestions = {
        "boot_source.kernel_image_path": str(kernel),
        "root_drive.path_on_host": str(kernel),
    }
    found = needs_of(host(tmp_path, str(program), suggestions, "jailer"), kvm)
    assert [need.what for need in found] == ["Firecracker", "KVM", "Jailer", "Kernel", "Disk"]
    assert all(need.met for need in found)


def test_what_is_missing_is_told_with_what_to_do(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    suggestions = {"boot_source.kernel_image_path": gone}
    assert needs_of(host(tmp_path, gone, suggestions), tmp_path / "gone") == [
        Need("Firecracker", False, f"{gone} is no program. Set FIRECRACKER_BIN."),
        Need("KVM", False, f"This user may not use {gone}, or it is not there."),
        Need("Jailer", False, NEEDS["no jail"]),
        Need("Kernel", False, f"{gone} cannot be read. Set KERNEL to another file."),
        Need("Disk", False, "Set ROOTFS, or type its path into the form."),
    ]
