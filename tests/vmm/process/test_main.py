"""`python -m generated_vmm.process`: what is shown of a host's monitors, and what is removed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from generated_vmm.process import Monitor, folders
from generated_vmm.process.__main__ import main
from tests.vmm.process.conftest import PATIENCE, Watch, nursery_of

netlink = pytest.importorskip("generated_vmm.process.netlink", reason="not run: it needs pyroute2")
TAPS: list[tuple[str, str]] = []
STARTS_ONE = """\
import json, sys
from generated_vmm.process import Monitor
monitor = Monitor(json.loads(sys.argv[1]), id="vm-1", directory=sys.argv[2], timeout=30).start()
print(monitor.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _registry(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry of the test's own. What other processes start is in the user's."""
    (folder / "registry").mkdir(mode=0o700)
    monkeypatch.setattr(folders, "_registries", lambda: [f"{folder}/registry"])
    monkeypatch.setattr(netlink, "leftovers", lambda: iter(TAPS))
    TAPS.clear()


def test_taps_without_an_owner_are_shown_and_removed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[object] = []
    monkeypatch.setattr(netlink, "remove", removed.append)
    TAPS.append(("tap0", "mark"))
    assert main(["list"]) == 0
    assert lines(capsys) == [["leftover", "-", "-", "tap0", "/sys/class/net/tap0"]]
    assert removed == []
    assert main(["clean"]) == 0
    assert lines(capsys) == [["removed", "-", "-", "tap0", "/sys/class/net/tap0"]]
    assert removed == [{"name": "tap0", "mark": "mark"}]


def test_a_host_that_shows_no_taps_is_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise PermissionError("no netlink")

    monkeypatch.setattr(netlink, "leftovers", refuse)
    assert main(["list"]) == 1
    assert capsys.readouterr().err == "taps: no netlink\n"


def lines(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """What was printed, without the titles."""
    return [line.split() for line in capsys.readouterr().out.splitlines()[1:]]


def test_monitors_are_shown_with_their_owner(
    binary: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"directory": str(folder / "web"), "timeout": PATIENCE, "id": "web"}
    with Monitor(binary, detached=True, **options) as monitor:  # type: ignore[arg-type]
        assert main(["list"]) == main(["clean"]) == 0
        owned, *cleaned = lines(capsys)
        assert owned == ["owned", str(monitor.pid), str(os.getpid()), "web", options["directory"]]
        assert cleaned == [["STATUS", "PID", "OWNER", "ID", "FOLDER"]]
    main(["list"])
    assert lines(capsys) == [["detached", str(monitor.pid), "-", "web", options["directory"]]]
    again = Monitor.attach(folder / "web")
    assert again.running
    again.kill()
    main(["list"])
    assert lines(capsys) == []
    assert list((folder / "registry").iterdir()) == []


def test_what_nobody_owns_is_removed(
    binary: list[str],
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    watch: Watch,
) -> None:
    """A caller that is killed with its reaper, as with its container, leaves a monitor."""
    path = str(folder / "vm")
    with subprocess.Popen(
        [sys.executable, "-c", STARTS_ONE, json.dumps(binary), path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as caller:
        assert caller.stdout is not None
        monitor = watch(int(caller.stdout.readline()))
        nursery = watch(nursery_of(caller.pid))
        caller.send_signal(signal.SIGSTOP)
        reaper.send_signal(signal.SIGKILL)
        caller.kill()
        assert nursery.wait(30)
    assert main(["list", path]) == 0
    assert lines(capsys) == [["leftover", str(monitor.pid), "-", "vm-1", path]]
    assert main(["clean", path]) == 0
    assert lines(capsys) == [["removed", str(monitor.pid), "-", "vm-1", path]]
    assert monitor.wait(PATIENCE)
    assert not (folder / "vm").exists()


def test_the_registry_leads_to_a_leftover_and_forgets_what_is_gone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "registry" / "1-1").symlink_to(folder / "gone")
    assert main(["clean"]) == 0
    assert lines(capsys) == []
    assert list((folder / "registry").iterdir()) == []


def test_a_folder_that_others_can_change_is_not_touched(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "vm").mkdir()
    (folder / "vm").chmod(0o777)
    assert main(["clean", str(folder / "vm")]) == 1
    assert "can be changed by others" in capsys.readouterr().err
