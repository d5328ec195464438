"""What somebody gets who builds from source."""

from __future__ import annotations

import zipfile
from pathlib import Path

from tests.packaging.built import build


def test_it_has_the_sources_the_documents_and_nothing_else(source: Path) -> None:
    assert {path.name for path in source.iterdir()} == {
        "fastapi_oidc",
        "generated_vmm",
        "codegen",
        "openapi",
        "docs",
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "LICENSE",
        "pyproject.toml",
        ".gitignore",
        "PKG-INFO",
    }


def test_the_same_wheels_come_of_it(
    source: Path, wheel: zipfile.ZipFile, client_wheel: zipfile.ZipFile, tmp_path: Path
) -> None:
    for folder, expected in ((source, wheel), (source / "generated_vmm", client_wheel)):
        rebuilt = zipfile.ZipFile(build("wheel", tmp_path / folder.name, folder))
        assert set(rebuilt.namelist()) == set(expected.namelist())
