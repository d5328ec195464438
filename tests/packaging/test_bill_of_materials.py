"""The bill of materials names what the wheel and its extras bring, and nothing of development."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Mapping
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.built import REPOSITORY, brought

EXTRAS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]


@pytest.fixture(scope="module")
def needed(wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and the metadata of what it brings, as pip would leave it."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    [packages] = folder.glob("lib/python*/site-packages")
    wheel.extractall(packages)
    [own] = packages.glob("fastapi_oidc_vmm-*.dist-info")
    lines = Distribution.at(own).requires or ()
    for each in map(distribution, brought(map(Requirement, lines), EXTRAS)):
        [metadata] = {file.parts[0] for file in each.files or () if file.name == "METADATA"}
        shutil.copytree(str(each.locate_file(metadata)), packages / metadata)
    return folder


@pytest.fixture(scope="module")
def bill(needed: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What `make wheel` writes of such an environment."""
    file = tmp_path_factory.mktemp("bill") / "bill.json"
    script = REPOSITORY / "tools" / "release" / "bill_of_materials.sh"
    own = os.environ | {"PYTHON": sys.executable}
    subprocess.run([script, needed, file], env=own, check=True, capture_output=True, timeout=100)
    written: Mapping[str, Any] = json.loads(file.read_text())
    return written


def test_it_names_what_the_libraries_and_their_extras_need(bill: Mapping[str, Any]) -> None:
    names = {canonicalize_name(component["name"]) for component in bill["components"]}
    assert {
        "fastapi",
        "cryptography",
        "python-jose",
        "redis",
        "hiredis",
        "sqlalchemy",
        "uvicorn",
    } <= names
    assert {"pytest", "mypy", "zensical", "playwright", "pip"} & names == set()
    assert all(component["version"] for component in bill["components"])


def test_it_is_about_this_project(bill: Mapping[str, Any]) -> None:
    described = bill["metadata"]["component"]
    assert (described["name"], described["type"]) == ("fastapi-oidc-vmm", "library")


def test_a_release_installs_the_wheel_with_every_extra() -> None:
    command = ["make", "--dry-run", "--no-print-directory", "wheel"]
    recipe = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True)
    [chosen] = re.findall(r"dist/fastapi_oidc_vmm-\*\.whl\)\[([a-z,]+)\]", recipe.stdout)
    assert set(chosen.split(",")) == set(EXTRAS)
    assert "tools/release/bill_of_materials.sh build/wheel dist/" in recipe.stdout
