"""Snapshots: created of a paused machine, restored on a fresh monitor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.console.browser import Browser
from tests.console.running import RunningConsole


@pytest.fixture
def paused(alice: Browser) -> Browser:
    for button in ("Save setup", "Start", "Pause"):
        alice.click(button)
    alice.open("/machines/demo/snapshots")
    return alice


MEMORY = {"snapshot": "mem_file_path", "restore": "mem_backend.backend_path"}


def files(folder: Path, form: str) -> dict[str, str]:
    return {
        f"{form}.snapshot_path": str(folder / "state"),
        f"{form}.{MEMORY[form]}": str(folder / "memory"),
    }


def test_a_snapshot_is_created_and_restored(
    paused: Browser, console: RunningConsole, tmp_path: Path
) -> None:
    paused.click("Create snapshot", files(tmp_path, "snapshot"))
    assert "Snapshot created." in paused.text
    console.monitor.stop()
    console.monitor.start()
    paused.open("/machines/demo/snapshots")
    paused.click("Restore snapshot", {**files(tmp_path, "restore"), "restore.resume_vm": "true"})
    assert "The machine is restored." in paused.text
    assert console.monitor.state == "Running"


def test_a_running_machine_has_to_be_paused_first(paused: Browser) -> None:
    paused.click("Resume")
    assert paused.path == "/machines/demo/snapshots"
    assert "Pause the machine first." in paused.text
    assert not paused.has_button("Create snapshot")


@pytest.mark.parametrize(
    ("field", "label"),
    [("snapshot.snapshot_path", "State file"), ("snapshot.mem_file_path", "Memory file")],
)
def test_a_folder_that_is_not_there_is_told_at_its_field(
    paused: Browser, tmp_path: Path, field: str, label: str
) -> None:
    typed = {**files(tmp_path, "snapshot"), field: str(tmp_path / "missing" / "file")}
    paused.click("Create snapshot", typed)
    assert paused.status == 422
    assert f"{label} This file cannot be opened. Is its folder there?" in paused.text
    assert "The monitor's words Create snapshot error: Cannot perform open on" in paused.text


def test_a_machine_that_was_set_up_restores_nothing(alice: Browser) -> None:
    alice.click("Save setup")
    alice.open("/machines/demo/snapshots")
    assert "This machine is set up already: only an empty one can be restored." in alice.text
    assert not alice.has_button("Restore snapshot")


def test_changes_are_written_of_a_machine_that_tracks_them(
    alice: Browser, console: RunningConsole, tmp_path: Path
) -> None:
    alice.click("Save setup", {"machine_config.track_dirty_pages": "true"})
    alice.click("Start")
    alice.click("Pause")
    alice.open("/machines/demo/snapshots")
    typed = {
        "diff.snapshot_path": str(tmp_path / "state"),
        "diff.mem_file_path": str(tmp_path / "memory"),
    }
    alice.click("Write the changes", typed)
    assert "The snapshot has the changes." in alice.text
    puts = [call for call in console.monitor.calls if call.method == "PUT"]
    assert json.loads(puts[-1].body or b"{}")["snapshot_type"] == "Diff"


def test_changes_that_nobody_tracks_cannot_be_written(paused: Browser) -> None:
    assert "This machine does not track changed memory." in paused.text
    assert not paused.has_button("Write the changes")


def test_a_restore_that_fails_ends_the_monitor(alice: Browser, tmp_path: Path) -> None:
    alice.open("/machines/demo/snapshots")
    alice.click("Restore snapshot", files(tmp_path, "restore"))
    assert alice.status == 422
    assert "State file There is no such file or folder on this host." in alice.text
    assert "The monitor's words Load snapshot error: Failed to restore" in alice.text
    alice.open("/machines/demo/snapshots")
    assert "Is it running?" in alice.text


def test_a_machine_that_somebody_else_started_is_not_cloned(paused: Browser) -> None:
    assert "Create a snapshot" in paused.page.headings
    assert "Clone" not in paused.page.headings


def test_files_that_are_there_are_overwritten_only_after_a_question(
    paused: Browser, console: RunningConsole, tmp_path: Path
) -> None:
    (tmp_path / "memory").write_bytes(b"of somebody else")
    paused.click("Create snapshot", files(tmp_path, "snapshot"), sure=False)
    assert f"Overwrite {tmp_path / 'memory'}?" in paused.text
    assert (tmp_path / "memory").read_bytes() == b"of somebody else"
    assert "PUT /snapshot/create" not in console.changes()
    paused.click("Yes: ")
    assert "Snapshot created." in paused.text
    assert console.changes()[-1] == "PUT /snapshot/create"
