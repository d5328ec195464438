"""A machine that goes on twice: with disks of its own, and leaving nothing when it fails."""

from pathlib import Path

import pytest

from tests.console.browser import Browser, create, do
from tests.console.running import RunningConsole, disks_of


@pytest.fixture
def folder(console: RunningConsole) -> Path:
    assert console.parts.folder is not None
    return console.parts.folder


def clone(browser: Browser, source: str, /, **typed: str) -> None:
    fields = {f"clone.{field}": text for field, text in typed.items()}
    do(browser, source, "snapshots", "Clone", fields)


def files(folder: Path) -> list[Path]:
    """The snapshots and the copies of disks that there are."""
    own = folder / "machines"
    return [*(own / "snapshots").iterdir(), *(own / "machines").glob("*/disks/*")]


def test_a_running_machine_is_cloned_in_one_step_and_goes_on(
    alice: Browser, console: RunningConsole, folder: Path
) -> None:
    create(alice, "web", machine_config__vcpu_count="2")
    alice.open("/machines/web/snapshots")
    assert alice.field("clone.name") == "web-2"
    alice.click("Clone", {"clone.run": ""}, sees="The clone is there.")
    assert alice.path == "/machines/web-2/snapshots"
    assert "web-2 Paused" in alice.text
    alice.click("Stop")
    alice.click("Start", sees="web-2 Running")
    (disk,) = disks_of(console, "web-2")
    alice.open("/machines/web-2/devices", sees=f"rootfs root disks/{disk.name}")
    assert disk.read_bytes() == (folder / "rootfs.ext4").read_bytes()
    alice.open("/machines/web-2", sees="Cloned from web.")
    assert "Disks that are written to: copied (rootfs)." in alice.text
    assert "Virtual processors 2" in alice.text
    alice.open("/machines/web", sees="web Running")


def test_a_clone_shares_the_disks_that_are_only_read(alice: Browser, folder: Path) -> None:
    create(alice, "reader", root_drive__is_read_only="true")
    clone(alice, "reader", name="reader-2")
    alice.open("/machines/reader-2/devices", sees=f"rootfs root read only {folder / 'rootfs.ext4'}")


@pytest.mark.since("1.12")
@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ({"name": "Bad"}, "Name Small letters, digits and hyphens, at most 32. Small"),
        ({"name": "x"}, "Name a tap device for eth0."),
        ({"name": "x", "taps": "eth7=tap7 eth0=tap0"}, "Unknown Network Device"),
        ({"name": "x", "taps": "eth0=tap/9"}, "Open tap device failed"),
    ],
)
def test_a_clone_that_cannot_be_made_leaves_nothing(
    alice: Browser, folder: Path, typed: dict[str, str], sentence: str
) -> None:
    create(alice, "source", new_network__host_dev_name="tap0")
    before = files(folder)
    clone(alice, "source", **typed)
    alice.require(422, sentence)
    assert alice.field("clone.name") == typed["name"]
    assert "source Running" in alice.text
    assert files(folder) == before
    alice.open("/")
    assert "x" not in alice.page.links


def test_a_snapshot_that_is_none_leaves_no_machine(alice: Browser) -> None:
    alice.open("/new/snapshot")
    typed = {"new.name": "nobody", "new.snapshot": "0123456789ab/none"}
    alice.click("Restore into a new machine", typed)
    alice.require(422, "This snapshot does not exist any more.")
    assert alice.field("new.name") == "nobody"
    alice.open("/")
    assert "nobody" not in alice.page.links
