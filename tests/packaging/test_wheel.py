"""What a user installs, and what it says is public."""

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
from email.message import Message
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import fastapi_oidc
import fastapi_oidc.testing
import generated_vmm
from tests.packaging.built import CLIENT as CLIENT_FOLDER
from tests.packaging.built import REPOSITORY, brought, build, metadata_of

PYPROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
CLIENT = tomllib.loads((REPOSITORY / "generated_vmm/pyproject.toml").read_text())["project"]
REFUSED = ("fastapi", "starlette", "jose", "cryptography", "itsdangerous", "pydantic_settings")
IMPORT = """
import importlib, pkgutil, sys
sys.path.insert(0, sys.argv[1])
sys.modules.update(dict.fromkeys(sys.argv[2:]))  # None: its import fails
import generated_vmm
for module in pkgutil.walk_packages(generated_vmm.__path__, "generated_vmm."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(*generated_vmm.__path__)
"""
LINK = re.compile(r"\]\(([^)]*)\)")


def test_each_wheel_has_the_files_of_its_package_and_nothing_else(
    wheel: zipfile.ZipFile, client_wheel: zipfile.ZipFile
) -> None:
    for package, built in (("fastapi_oidc", wheel), ("generated_vmm", client_wheel)):
        listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", package]
        tracked = subprocess.run(listed, cwd=REPOSITORY, check=True, capture_output=True, text=True)
        metadata = {f"{package}/{name}" for name in ("LICENSE", "README.md", "pyproject.toml")}
        files = {name for name in built.namelist() if ".dist-info/" not in name}
        assert files == set(tracked.stdout.splitlines()) - metadata


def test_the_client_needs_neither_framework_nor_cryptography(client_wheel: zipfile.ZipFile) -> None:
    needed = metadata_of(client_wheel).get_all("Requires-Dist") or []
    always = {Requirement(line).name for line in needed if "extra ==" not in line}
    assert always == {"httptools", "pydantic", "typing-extensions"}


def test_the_client_is_imported_where_nothing_else_is(
    client_wheel: zipfile.ZipFile, tmp_path: Path
) -> None:
    """All its modules, in a process that finds of other packages only what it requires."""
    client_wheel.extractall(tmp_path)
    done = subprocess.run(
        [sys.executable, "-I", "-W", "error", "-c", IMPORT, str(tmp_path), *REFUSED],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{tmp_path}/generated_vmm\n", "")


def test_both_distributions_have_one_version_and_one_licence() -> None:
    assert (CLIENT_FOLDER / "LICENSE").read_text() == (REPOSITORY / "LICENSE").read_text()
    versions = {fastapi_oidc.__version__, generated_vmm.__version__, PROJECT["version"]}
    assert versions == {CLIENT["version"]}
    pinned = [line for line in PROJECT["dependencies"] if line.startswith("generated-vmm")]
    assert pinned == [f"generated-vmm=={CLIENT['version']}"]
    assert PROJECT["optional-dependencies"]["network"] == [
        f"generated-vmm[network]=={CLIENT['version']}"
    ]


def test_the_description_has_links_that_work_on_a_package_index(metadata: Message) -> None:
    repository = PROJECT["urls"]["Repository"]
    ours = re.compile(rf"{re.escape(repository)}/(?:blob|raw)/main/([^#]*)(?:#.*)?")
    description = str(metadata.get_payload())
    found = [ours.fullmatch(link) for link in LINK.findall(description) if "/main/" in link]
    assert "![The console with a running microVM](" + repository + "/raw/" in description
    assert all(link.startswith("https://") for link in LINK.findall(description))
    assert all(match is not None and (REPOSITORY / match[1]).exists() for match in found)
    assert len(found) > 10


# What somebody gets who builds from source.


def test_it_has_the_sources_the_documents_and_nothing_else(source: Path) -> None:
    assert {path.name for path in source.iterdir()} == {
        *("fastapi_oidc", "generated_vmm", "codegen", "openapi", "docs"),
        *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
        *("LICENSE", "pyproject.toml", ".gitignore", "PKG-INFO"),
    }


def test_the_same_wheels_come_of_it(
    source: Path, wheel: zipfile.ZipFile, client_wheel: zipfile.ZipFile, tmp_path: Path
) -> None:
    for folder, expected in ((source, wheel), (source / "generated_vmm", client_wheel)):
        rebuilt = zipfile.ZipFile(build("wheel", tmp_path / folder.name, folder))
        assert set(rebuilt.namelist()) == set(expected.namelist())


# The bill of materials names what the wheel and its extras bring, and nothing of development.


EXTRAS = PROJECT["optional-dependencies"]


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
    subprocess.run([script, needed, file], env=own, check=True, capture_output=True)
    written: Mapping[str, Any] = json.loads(file.read_text())
    return written


def test_it_names_what_the_libraries_and_their_extras_need(bill: Mapping[str, Any]) -> None:
    names = {canonicalize_name(component["name"]) for component in bill["components"]}
    assert {
        *("fastapi", "cryptography", "python-jose", "redis", "hiredis", "sqlalchemy", "uvicorn")
    } <= names
    described = bill["metadata"]["component"]
    assert (described["name"], described["type"]) == ("fastapi-oidc-vmm", "library")
    assert {"pytest", "mypy", "zensical", "playwright", "pip"} & names == set()
    assert all(component["version"] for component in bill["components"])


def test_a_release_installs_the_wheel_with_every_extra() -> None:
    command = ["make", "--dry-run", "--no-print-directory", "wheel"]
    recipe = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True)
    [chosen] = re.findall(r"dist/fastapi_oidc_vmm-\*\.whl\)\[([a-z,]+)\]", recipe.stdout)
    assert set(chosen.split(",")) == set(EXTRAS)
    assert "tools/release/bill_of_materials.sh build/wheel dist/" in recipe.stdout


# Everybody develops, and CI tests, with the same versions.


LINE = re.compile(r"([A-Za-z0-9._-]+)==([^\s=*]+)")


def pinned() -> dict[str, str]:
    """The exact version of each package."""
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()[1:]
    found = [LINE.fullmatch(line) for line in lines]
    assert None not in found
    return {canonicalize_name(match[1]): match[2] for match in found if match}


def declared() -> list[Requirement]:
    """What both distributions and the development need, except one another."""
    projects, groups = (PROJECT, CLIENT), PYPROJECT["dependency-groups"]
    lists = list(groups.values())
    for project in projects:
        lists += [project["dependencies"], *project["optional-dependencies"].values()]
    found = [Requirement(line) for lines in lists for line in lines if isinstance(line, str)]
    return [requirement for requirement in found if requirement.name != CLIENT["name"]]


def test_every_package_that_is_installed_for_development_has_an_exact_version() -> None:
    missing = brought(declared()) - pinned().keys()
    assert missing == set(), "write the file anew with: make constraints"


def test_every_exact_version_is_one_that_the_project_takes() -> None:
    versions = pinned()
    refused = [
        f"{requirement} is not {version}"
        for requirement in declared()
        if (version := versions.get(canonicalize_name(requirement.name)))
        and not requirement.specifier.contains(version, prereleases=True)
    ]
    assert refused == [], "write the file anew with: make constraints"
