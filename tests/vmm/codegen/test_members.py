"""The page of client members says what the description says."""

import copy
import functools
import re
import shutil
from pathlib import Path

import pytest

from codegen.document import Unusable, operations_of
from codegen.generate import put_together, try_out
from codegen.members import members_of, require_free, suggested
from codegen.pipeline import Project, make
from codegen.report import members_page
from codegen.unsupported import Lacking
from tests.vmm.codegen.descriptions import PROJECT, ROOT, described_reference, write
from tests.vmm.codegen.releases import unlike_any_release
from tests.vmm.codegen.trials import python

HEAD = PROJECT.root / "codegen" / "members_head.md"


@functools.cache
def page() -> str:
    return members_page(described_reference(), HEAD)


def test_every_phase_is_explained() -> None:
    explained = {
        line.split("|")[1].strip() for line in page().splitlines() if line.startswith("| ")
    }
    for _, _, operation in operations_of(described_reference()):
        for phase in operation["x-phase"].split(", with PCI"):
            assert phase.strip() in {*explained, "after start", ""}


PLACES = {
    "get": "and the path need the same number of ids: 1",
    "a.get": "and the path need the same number of ids: 1",
    "a(id).b(id).get": "and the path need the same number of ids: 1",
    "drive(id)": "has 'drive(id)', which is no name",
    "Drive(id).get": "has 'Drive', which is no name",
    "class(id).get": "has 'class', which is no name",
    "_a(id).get": "has '_a', which is no name",
    "drive(id).set": "is another member already",
    "vsock(id).get": "has 'vsock(id)', which is another member already",
    "boot(id).get": "begins with 'boot', which the client has already",
}


@pytest.mark.parametrize(("member", "reason"), PLACES.items(), ids=PLACES)
def test_a_place_that_a_call_cannot_have_is_refused(member: str, reason: str) -> None:
    document = copy.deepcopy(described_reference())
    new = document["paths"]["/drives/{drive_id}"]["delete"]
    document["paths"]["/new/{id}"] = {"get": new | {"x-member": member}}
    with pytest.raises(Unusable, match=re.escape(f"GET /new/{{id}}: x-member '{member}' {reason}")):
        require_free(members_of(document, Lacking()), PROJECT.written / "facade/_async/client.py")


SUGGESTED = {
    "GET /clock": "clock.get",
    "PUT /things": "things.set",
    "PATCH /things/{a}/of/{id}": "all_things(id).of(id).update",
    "DELETE /import/2nd": "call_import.call_2nd.delete",
    "GET /pmem": "all_pmem.get",
    "GET /boot": "all_boot.get",
}


def test_the_suggested_names_are_free() -> None:
    document = copy.deepcopy(described_reference())
    for place in SUGGESTED:
        method, _, path = place.partition(" ")
        document["paths"].setdefault(path, {})[method.lower()] = {"responses": {}}
    client = PROJECT.written / "facade/_async/client.py"
    assert suggested(document, Lacking(), client) == SUGGESTED


# What codegen prints for a new call is what it takes, and gives the client a member that works


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
