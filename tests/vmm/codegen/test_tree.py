"""The generated folder is the old one or the new one, whenever a run is interrupted."""

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from codegen.tree import differences, fresh_beside, recover, replace, write_whole
from tests.vmm.codegen.descriptions import PROJECT, ROOT

OLD = {"a.py": "old a", "gone.py": "old", "models/b.py": "old b"}
NEW = {"a.py": "new a", "models/b.py": "new b", "models/c.py": "new c"}

MOST_EVENTS = 60

# Replaces the folder, and dies at the given file system event as a killed process does.
KILLED = """
import os, shutil, sys
from pathlib import Path
from codegen.tree import fresh_beside, recover, replace
target, made, left = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
EVENTS = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree", "open"}
def count(event, arguments):
    global left
    if event in EVENTS and str(target.parent) in str(arguments):
        left -= 1
        if left < 0:
            os._exit(9)
sys.addaudithook(count)
recover(target)
shutil.copytree(made, fresh_beside(target))
replace(target)
"""


def lay(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def read(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*.py"))
    }


def killed_run(target: Path, made: Path, event: int) -> bool:
    """Whether a run that dies at this event got as far as to die."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(target), str(made), str(event)], cwd=ROOT, check=False
    )
    assert done.returncode in (0, 9)
    return done.returncode == 9


def test_killed_at_any_point_the_folder_is_whole_after_the_next_run(tmp_path: Path) -> None:
    made = lay(tmp_path / "made", NEW)
    for event in range(MOST_EVENTS):
        target = lay(tmp_path / f"project{event}" / "_generated", OLD)
        died = killed_run(target, made, event)
        if target.exists():
            assert read(target) in (OLD, NEW)
        recover(target)
        assert read(target) in (OLD, NEW)
        assert [path.name for path in target.parent.iterdir()] == ["_generated"]
        if not died:
            assert read(target) == NEW
            return
    pytest.fail(f"a run has more than {MOST_EVENTS} steps")


@pytest.mark.parametrize("renames", [0, 1])
def test_interrupted_between_the_renames_the_old_folder_is_back(
    renames: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = lay(tmp_path / "_generated", OLD)
    lay(fresh_beside(target), NEW)
    left, rename = renames, Path.rename

    def interrupted(path: Path, to: Path) -> Path:
        nonlocal left
        left -= 1
        if left == -1:
            raise KeyboardInterrupt
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        replace(target)
    assert read(target) == OLD


def test_the_first_folder_needs_no_older_one(tmp_path: Path) -> None:
    target = tmp_path / "_generated"
    lay(fresh_beside(target), NEW)
    replace(target)
    assert read(target) == NEW


def test_a_file_that_cannot_be_replaced_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "docs" / "page.md"
    write_whole(target, "old")

    monkeypatch.setattr(Path, "replace", Mock(side_effect=OSError("no space")))
    with pytest.raises(OSError, match="no space"):
        write_whole(target, "new")
    assert target.read_text(encoding="utf-8") == "old"


# Whatever became of the generated package, the next run makes it whole


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the project, codegen included, to run as a user does."""
    root = tmp_path / "project"
    for name in ("codegen", "openapi", "generated_vmm", "docs/vmm"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    PROJECT.mypy_cache.mkdir(parents=True, exist_ok=True)
    (root / ".mypy_cache").symlink_to(PROJECT.mypy_cache.parent)
    return root


def test_the_next_run_makes_the_package_whole(checkout: Path) -> None:
    """Of a broken package, left by a run that was killed between its two renames."""
    package = checkout / "generated_vmm" / "_generated"
    (package / "__init__.py").write_text("this is no Python", encoding="utf-8")
    shutil.copytree(package, package.with_name("._generated.new"))
    package.rename(package.with_name("._generated.old"))
    subprocess.run(
        [sys.executable, "-m", "codegen"], cwd=checkout, check=True, stdout=subprocess.DEVNULL
    )
    assert list(differences(package, PROJECT.package)) == []
    assert not list(package.parent.glob("._generated.*"))


# The same description gives the same bytes, anywhere, without the network and quickly


# Imported by every Python that the run starts: whoever opens a connection fails.
OFFLINE = """
import socket
def refuse(*_, **__):
    raise RuntimeError("no network")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
"""
# All but the trial, whose time is that of mypy.
MAKE = """
import sys
from pathlib import Path
from codegen.pipeline import Project, make
project = Project(Path(sys.argv[1]))
make(project, project.description(), Path(sys.argv[2]))
"""
SECONDS = 20  # of processor time, of which a slow machine takes a third


def generate(out: Path, folder: Path, **environment: str) -> None:
    """Generate in a process of its own, started elsewhere and cut off from the network."""
    site = folder / "site"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(OFFLINE, encoding="utf-8")
    subprocess.run(
        [sys.executable, "-c", MAKE, str(ROOT), str(out)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{site}:{ROOT}", **environment},
        stdout=subprocess.DEVNULL,
        check=True,
    )


def test_hash_seed_and_folder_change_nothing_in_seconds(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    generate(tmp_path / "out", tmp_path, PYTHONHASHSEED="0", LC_ALL="C", TZ="Asia/Tokyo")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < SECONDS
    assert list(differences(tmp_path / "out" / "_generated", PROJECT.package)) == []
    made = tmp_path / "out" / PROJECT.description().name
    assert made.read_bytes() == PROJECT.description().read_bytes()
