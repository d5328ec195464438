"""Every shape is generated once a run, side by side in one folder."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from codegen.document import Document
from codegen.pipeline import Run, make
from tests.vmm.codegen.descriptions import PROJECT
from tests.vmm.codegen.shapes import all_shapes, spec_file


@dataclass(frozen=True)
class Generated:
    """A generated package that can be imported, and the run that made it."""

    run: Run
    name: str

    @property
    def document(self) -> Document:
        return self.run.document

    @property
    def folder(self) -> Path:
        return self.run.folder / "_generated"

    def module(self, name: str) -> ModuleType:
        return importlib.import_module(f"{self.name}.{name}")


class Workshop:
    """Makes each shape when it is first asked for; all of them stand in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made: dict[str, Generated] = {}

    def get(self, shape: str) -> Generated:
        if shape not in self._made:
            name = "generated_" + shape.replace("-", "_").replace(".", "_")
            run = make(PROJECT, spec_file(shape, self.folder), self.folder / name)
            self._made[shape] = Generated(run, name)
        return self._made[shape]


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("generated"))


@pytest.fixture(scope="session", params=all_shapes())
def generated(request: pytest.FixtureRequest, workshop: Workshop) -> Iterator[Generated]:
    made = workshop.get(str(request.param))
    _import_package(made.folder, made.name)
    yield made
    for module in [found for found in sys.modules if found.split(".")[0] == made.name]:
        del sys.modules[module]


def _import_package(folder: Path, name: str) -> None:
    location = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert location is not None
    assert location.loader is not None
    sys.modules[name] = importlib.util.module_from_spec(location)
    location.loader.exec_module(sys.modules[name])
