"""What an older monitor lacks has a name that says so, and nothing else does."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from codegen.absent import add_absent
from tests.vmm.codegen.conftest import Workshop
from tests.vmm.codegen.descriptions import PROJECT

WRITTEN = """
from generated_vmm._generated import models, operations

operations.put_drive(models.Drive())
operations.put_pmem(models.Pmem(**models.PmemFields()))
"""


def package_and_written(folder: Path) -> tuple[Path, Path]:
    package, written = folder / "_generated", folder / "written"
    (package / "models").mkdir(parents=True)
    written.mkdir()
    (package / "models" / "__init__.py").write_text("from .drive import Drive\n", "utf-8")
    (package / "operations.py").write_text("def put_drive(): ...\n", "utf-8")
    (written / "facade.py").write_text(WRITTEN, "utf-8")
    return package, written


def test_only_what_is_missing_is_added(tmp_path: Path) -> None:
    package, written = package_and_written(tmp_path)
    assert add_absent(package, "1.10.1", written) == [
        "client: put_pmem is not in 1.10.1",
        "client: Pmem is not in 1.10.1",
        "client: PmemFields is not in 1.10.1",
    ]
    models = (package / "models" / "__init__.py").read_text("utf-8")
    assert "class Pmem(Absent):" in models
    assert "class PmemFields(TypedDict):" in models
    assert "class Drive" not in models
    assert "def put_pmem(" in (package / "operations.py").read_text("utf-8")


def test_nothing_is_added_twice(tmp_path: Path) -> None:
    package, written = package_and_written(tmp_path)
    add_absent(package, "1.10.1", written)
    assert add_absent(package, "1.10.1", written) == []


def test_the_committed_package_lacks_nothing(workshop: Workshop) -> None:
    made = workshop.get("swagger")
    assert not [note for note in made.run.notes if note.startswith("client:")]
    assert "Not in monitor" not in (made.folder / "operations.py").read_text("utf-8")


SCRIPT = """
import generated_vmm
client = generated_vmm.VmmClient("/nowhere")
def said(call):
    try:
        call()
    except Exception as error:
        return str(error)
print(generated_vmm.API_VERSION)
print(said(lambda: client.drive("a").delete()))
print(said(lambda: client.pmem("a").set(path_on_host="/a")).splitlines()[1].strip()[:53])
print("nobody" if "No such file" in said(client.get_version) else "?")
"""


def test_the_client_works_with_an_older_monitor(workshop: Workshop, tmp_path: Path) -> None:
    package = tmp_path / "generated_vmm"
    shutil.copytree(PROJECT.written, package, ignore=shutil.ignore_patterns("_generated"))
    shutil.copytree(workshop.get("release_1_7").folder, package / "_generated")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == [
        "1.7.0",
        "monitor 1.7.0 has no operation delete_guest_drive_by_id",
        "Value error, the monitor of this version has no Pmem ",
        "nobody",
    ]
