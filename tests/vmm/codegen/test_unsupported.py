"""What an older monitor lacks has a name that says so, and nothing else does."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from codegen.overlay import Action
from codegen.unsupported import Lacking, add_unsupported, defined, models_used
from tests.vmm.codegen.conftest import Workshop
from tests.vmm.codegen.descriptions import PROJECT

WRITTEN = "from written._generated import models\nmodels.Other(models.Drive())\n"
MODELS = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from .drive import Drive
_MODULES = {
    "Drive": "drive",
}
__all__ = [
    "Drive",
]
"""
SCHEMAS = "$.components.schemas"
ACTIONS = [
    Action(f"{SCHEMAS}.Pmem", {}),
    Action(f"{SCHEMAS}.Pmem.properties.path", {}),
    Action(f"{SCHEMAS}.Pmem.properties.kind", {"x-alias": "PmemKind"}),
    Action(f"{SCHEMAS}.Nested", {}),
    Action(f"{SCHEMAS}.Status", {"x-answered": True}),
    Action(f"{SCHEMAS}.Drive", {}),
    Action("$.paths['/p'].put", {"x-member": "pmem.set"}),
    Action("$.paths['/p']", {"delete": {"x-member": "pmem.delete"}}, "1.16.0"),
]
LACKED = {"Pmem": "1.14.0", "Nested": "1.12.0", "Status": "1.14.0", "PUT /p": "1.14.4, 1.15.1"}
DOCUMENT = {
    "info": {"version": "1.10.1"},
    "paths": {"/d": {"put": {}}},
    "components": {"schemas": {"Drive": {}}},
}


def package_and_written(folder: Path) -> tuple[Path, Path]:
    package, written = folder / "_generated", folder / "written"
    (package / "models").mkdir(parents=True)
    written.mkdir()
    (package / "models" / "__init__.py").write_text(MODELS, "utf-8")
    (written / "facade.py").write_text(WRITTEN, "utf-8")
    return package, written


def test_only_what_is_missing_is_added(tmp_path: Path) -> None:
    package, written = package_and_written(tmp_path)
    lacking, used = Lacking.by(DOCUMENT, LACKED, ACTIONS), models_used(written, "_generated")
    names = ["Nested", "NestedFields", "Other", "Pmem", "PmemFields", "PmemKind", "Status"]
    notes = add_unsupported(package, "1.10.1", used, lacking)
    calls = ["pmem.delete", "pmem.set"]
    assert notes == [f"client: {name} is not in 1.10.1" for name in (*calls, *names)]
    assert lacking.calls == {
        "PUT /p": ("pmem.set", "1.14.4, 1.15.1"),
        "DELETE /p": ("pmem.delete", "1.16.0"),
    }
    assert defined(package / "models" / "__init__.py") >= {"Drive", *names}
    text = (package / "models" / "unsupported.py").read_text("utf-8")
    assert "class Pmem(Unsupported):" in text
    assert "    path: Any\n    kind: Any" in text.partition("class PmemFields(TypedDict")[2]
    assert "class Drive" not in text
    assert add_unsupported(package, "1.10.1", used, lacking) == notes[: len(calls)]


def test_a_monitor_as_new_as_the_written_code_lacks_nothing(workshop: Workshop) -> None:
    for shape in ("swagger", "release_1_17"):
        made = workshop.get(shape)
        assert not [note for note in made.run.notes if note.startswith("client:")]
        assert "unsupported(" not in (made.folder / "_async" / "resources.py").read_text("utf-8")
        assert not (made.folder / "models" / "unsupported.py").exists()


SCRIPT = """
import generated_vmm
from generated_vmm import *
client = generated_vmm.VmmClient("/nowhere")
def said(call):
    try:
        call()
    except generated_vmm.VmmError as error:
        return str(error)
print(generated_vmm.API_VERSION)
print(said(lambda: client.drive("a").delete()))
print(said(lambda: client.pmem("a").set(path_on_host="/a")))
print(said(lambda: client.pmem("a").update({"rate_limiter": None})))
print(said(client.balloon.hinting.start))
print(said(client.hotplug_memory.get))
print(said(lambda: generated_vmm.Pmem(id="a", path_on_host="/a")))
print(CpuidRegisterModifierRegister, VsockOverrideFields.__name__)
print("nobody" if "No such file" in said(client.get_version) else "?")
"""
NEEDS = "{} needs monitor {} or newer; this client is made for 1.7.0"


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
        NEEDS.format("drive(id).delete", "1.16.0"),
        NEEDS.format("pmem(id).set", "1.14.0"),
        NEEDS.format("pmem(id).update", "1.16.0"),
        NEEDS.format("balloon.hinting.start", "1.14.0"),
        NEEDS.format("hotplug_memory.get", "1.14.0"),
        NEEDS.format("Pmem", "1.14.0"),
        "<class 'str'> VsockOverrideFields",
        "nobody",
    ]


def test_every_name_of_the_client_is_there_for_an_older_monitor(workshop: Workshop) -> None:
    newest = defined(workshop.get("swagger").folder / "models" / "__init__.py")
    assert newest <= defined(workshop.get("release_1_7").folder / "models" / "__init__.py")
