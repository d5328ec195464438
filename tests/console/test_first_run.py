"""A console without machines: the way to the first one, simulated or real."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from examples.console.first_run import Need, needs_of
from examples.console.host import Host
from examples.console.launch import Launch
from examples.console.words import NEEDS
from tests.console.machines import delete
from tests.console.running import ALICE, BOB, hosting_console, signed_in


def test_when_the_last_machine_is_gone_the_page_shows_the_way_to_the_next() -> None:
    with hosting_console() as console, signed_in(console, ALICE) as alice:
        alice.open_until("demo Running", "/")
        alice.open_until("fresh Not started", "/")
        assert "From nothing to a running machine" not in alice.page.headings
        for name in ("demo", "fresh"):
            delete(alice, name)
        alice.open("/")
        steps = ["Have what it needs", "Create it", "Watch it"]
        assert [one for one in alice.page.headings if one in steps] == steps
        assert "machines are simulated" in alice.text
        assert alice.page.links["Create a machine"] == "/new"
        with signed_in(console, BOB) as bob:
            assert "an admin creates it" in bob.text
            assert "Create a machine" not in bob.page.links
        alice.open(alice.page.links["Create a machine"])
        alice.click("Create machine", {"new.name": "first"})
        assert "first Running" in alice.text
        delete(alice, "first")


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


def test_a_search_without_a_result_is_no_first_run() -> None:
    with hosting_console() as console, signed_in(console, ALICE) as alice:
        alice.open_until("demo Running", "/")
        alice.open("/?find=nobody")
        assert "No machine's name or state has this text." in alice.text
        assert "From nothing to a running machine" not in alice.page.headings
        assert alice.page.links["All machines"] == "/"
