"""Every description is generated from once a test run, side by side in one folder."""

import dataclasses
import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from codegen.document import Document
from codegen.import_spec import import_spec
from codegen.pipeline import Project, Run, make
from tests.vmm.codegen.descriptions import PROJECT, write
from tests.vmm.codegen.releases import all_shapes, spec_file


@dataclass(frozen=True)
class Generated:
    """A generated package that can be imported, and the run that made it."""

    run: Run

    @property
    def name(self) -> str:
        return self.run.folder.name

    @property
    def document(self) -> Document:
        return self.run.document

    @property
    def folder(self) -> Path:
        return self.run.folder / "_generated"

    def module(self, name: str) -> ModuleType:
        return importlib.import_module(f"{self.name}.{name}")


class Workshop:
    """Keeps in `folder` what was made of each description; all processes of a test run share it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, shape: str) -> Generated:
        return Generated(self._made(spec_file(shape, self.folder)))

    def of(self, document: Document, name: str) -> Path:
        """The folder of what was made of a description of one's own."""
        return self._made(write(document, self.folder, f"{name}-{os.getpid()}")).folder

    def make(self, _: Project, spec: Path, folder: Path) -> Run:
        """As `codegen.pipeline.make` for this project, by copying what was made before."""
        run = self._made(spec)
        ignored = shutil.ignore_patterns("__pycache__", "notes.json")
        shutil.copytree(run.folder, folder, ignore=ignored, dirs_exist_ok=True)
        return dataclasses.replace(run, folder=folder)

    def _made(self, spec: Path) -> Run:
        facts = import_spec(spec)
        name = "generated_" + hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12]
        folder = self.folder / name
        kept = folder / "notes.json"
        with (self.folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.exists():
                run = make(PROJECT, spec, folder)
                kept.write_text(json.dumps([run.document, run.notes]), encoding="utf-8")
        document, notes = json.loads(kept.read_text(encoding="utf-8"))
        return Run(folder, facts, document, notes)


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "workshop"
    folder.mkdir(exist_ok=True)
    return Workshop(folder)


@pytest.fixture(scope="session", params=all_shapes())
def generated(request: pytest.FixtureRequest, workshop: Workshop) -> Iterator[Generated]:
    made = workshop.get(str(request.param))
    import_package(made.folder, made.name)
    yield made
    for module in [found for found in sys.modules if found.split(".")[0] == made.name]:
        del sys.modules[module]


def import_package(folder: Path, name: str) -> None:
    location = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert location is not None
    assert location.loader is not None
    sys.modules[name] = importlib.util.module_from_spec(location)
    location.loader.exec_module(sys.modules[name])
