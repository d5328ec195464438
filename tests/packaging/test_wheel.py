"""What a user installs, and what it says is public."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import fastapi_oidc
import fastapi_oidc.testing
import generated_vmm

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_has_both_packages_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "fastapi_oidc",
        "generated_vmm",
    }


@pytest.mark.parametrize(
    "name",
    [
        "fastapi_oidc/py.typed",
        "fastapi_oidc/web/browser/oidc-context.js",
        "fastapi_oidc/testing/__init__.py",
        "generated_vmm/py.typed",
        "generated_vmm/_generated/operations.py",
        "generated_vmm/testing/__main__.py",
    ],
)
def test_the_wheel_has(wheel: zipfile.ZipFile, name: str) -> None:
    assert name in wheel.namelist()


def test_the_metadata_names_the_licence_and_the_extras(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
    metadata = Parser().parsestr(wheel.read(name).decode())
    assert metadata["Name"] == "fastapi-oidc-vmm"
    assert metadata["License-Expression"] == "MIT"
    assert metadata.get_all("Provides-Extra") == ["demo", "redis", "testing"]


@pytest.mark.parametrize("package", [fastapi_oidc, fastapi_oidc.testing, generated_vmm])
def test_all_names_exist_once_and_in_order(package: object) -> None:
    names: list[str] = package.__all__  # type: ignore[attr-defined]  # every package has it
    assert len(names) == len(set(names))
    assert all(hasattr(package, name) for name in names)
