"""What codegen prints for a new call is what it takes, and gives the client a member that works."""

from __future__ import annotations

import shutil
from pathlib import Path

from codegen.generate import put_together, try_out
from codegen.pipeline import Project, make
from tests.vmm.codegen.descriptions import PROJECT, ROOT, write
from tests.vmm.codegen.releases import unlike_any_release
from tests.vmm.codegen.trials import python

ENTRY = "  - target: "
USE = """
import json
from types import SimpleNamespace
from generated_vmm import VmmClient

class Channel:
    def exchange(self, operation, seconds):
        answers = {"GET": b'{"id": "a", "size": 1, "needed": null, "names": []}'}
        answers["GET"] = b"[]" if operation.path.endswith("/parts") else answers["GET"]
        body = operation.body and json.loads(operation.body)
        print(operation.method, operation.path, json.dumps(body), seconds)
        content = answers.get(operation.method, b"")
        return SimpleNamespace(status_code=200, headers=[], content=content)
    def close(self): ...

vm = VmmClient("/s", transport=Channel())
vm.things("a").of("b").set(needed=None, names=["x"])
vm.all_things.update()
vm.parts("p").set({"size": 2}, force=True)
print(vm.parts("p").get(deep=True, page_size=3).size)
print(vm.all_parts.get())
"""


def copied(tmp_path: Path) -> Project:
    """A project whose description has calls of every shape, without the words for them."""
    for name in ("openapi", "generated_vmm"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return Project(tmp_path)


def test_what_is_printed_for_new_calls_is_accepted(tmp_path: Path) -> None:
    project, spec = copied(tmp_path), write(unlike_any_release(), tmp_path)
    notes = make(project, spec, tmp_path / "first").notes
    entries = [note.partition(ENTRY)[2] for note in notes if ENTRY in note]
    assert len(entries) == 7
    with project.overlay.open("a") as overlay:
        overlay.writelines(f"{ENTRY}{entry}\n" for entry in entries)
    run = make(project, spec, tmp_path / "second")
    assert not [note for note in run.notes if "has no member" in note]
    try_out(run.folder, project.parts, project.written, PROJECT.mypy_cache)
    put_together(run.folder, project.parts, project.written, tmp_path / "use" / "generated_vmm")
    (tmp_path / "use" / "use.py").write_text(USE)
    assert python(tmp_path / "use", "use.py") == [
        'PUT /api/v1/things/a/of/b {"names": ["x"]} 5.0',
        "PATCH /api/v1/things null 5.0",
        'PUT /api/v1/parts/p?force=true {"id": "p", "size": 2} 5.0',
        "GET /api/v1/parts/p?page-size=3&deep=true null 5.0",
        "1",
        "GET /api/v1/parts null 5.0",
        "[]",
    ]
