"""What a user installs, and what it says is public."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from email.message import Message
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import fastapi_oidc
import fastapi_oidc.testing
import generated_vmm
from tests.packaging.built import CLIENT as CLIENT_FOLDER
from tests.packaging.built import REPOSITORY, metadata_of

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
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


def tops(wheel: zipfile.ZipFile) -> set[str]:
    """The folders of a wheel that can be imported."""
    names = {name.partition("/")[0] for name in wheel.namelist()}
    return {name for name in names if not name.endswith(".dist-info")}


def test_each_wheel_has_its_package_and_nothing_else(
    wheel: zipfile.ZipFile, client_wheel: zipfile.ZipFile
) -> None:
    assert tops(wheel) == {"fastapi_oidc"}
    assert tops(client_wheel) == {"generated_vmm"}


@pytest.mark.parametrize(
    "name",
    [
        "fastapi_oidc/py.typed",
        "fastapi_oidc/web/browser/oidc-context.js",
        "fastapi_oidc/testing/__init__.py",
        "generated_vmm/py.typed",
        "generated_vmm/_generated/operations.py",
        "generated_vmm/testing/__main__.py",
        "generated_vmm/testing/metrics.txt",
    ],
)
def test_the_wheels_have(wheel: zipfile.ZipFile, client_wheel: zipfile.ZipFile, name: str) -> None:
    assert name in wheel.namelist() + client_wheel.namelist()


def test_the_client_needs_no_web_framework_and_no_cryptography(
    client_wheel: zipfile.ZipFile,
) -> None:
    needed = metadata_of(client_wheel).get_all("Requires-Dist") or []
    always = {Requirement(line).name for line in needed if "extra ==" not in line}
    assert always == {"httptools", "httpx", "pydantic", "typing-extensions"}


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


def test_both_distributions_have_one_version() -> None:
    assert CLIENT["version"] == PROJECT["version"]
    pinned = [line for line in PROJECT["dependencies"] if line.startswith("generated-vmm")]
    assert pinned == [f"generated-vmm=={CLIENT['version']}"]
    assert PROJECT["optional-dependencies"]["network"] == [
        f"generated-vmm[network]=={CLIENT['version']}"
    ]


def test_the_metadata_names_licence_authors_and_extras(metadata: Message) -> None:
    assert metadata["Name"] == "fastapi-oidc-vmm"
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Author"] == "The fastapi-oidc-vmm authors"
    assert metadata.get_all("Provides-Extra") == ["broker", "network", "redis", "sql", "testing"]


def test_the_project_urls_lie_in_one_repository(metadata: Message) -> None:
    urls = dict(entry.split(", ") for entry in metadata.get_all("Project-URL") or ())
    assert set(urls) == {"Repository", "Documentation", "Changelog", "Issues"}
    assert all(url.startswith(urls["Repository"]) for url in urls.values())


def test_the_description_has_links_that_work_on_a_package_index(metadata: Message) -> None:
    repository = PROJECT["urls"]["Repository"]
    ours = re.compile(rf"{re.escape(repository)}/(?:blob|raw)/main/([^#]*)(?:#.*)?")
    description = str(metadata.get_payload())
    found = [ours.fullmatch(link) for link in LINK.findall(description) if "/main/" in link]
    assert "![The console with a running microVM](" + repository + "/raw/" in description
    assert all(link.startswith("https://") for link in LINK.findall(description))
    assert all(match is not None and (REPOSITORY / match[1]).exists() for match in found)
    assert len(found) > 10


@pytest.mark.parametrize("package", [fastapi_oidc, generated_vmm])
def test_the_packages_know_their_version(package: object) -> None:
    assert package.__version__ == PROJECT["version"]  # type: ignore[attr-defined]  # both have it


def test_both_distributions_have_the_licence() -> None:
    assert (CLIENT_FOLDER / "LICENSE").read_text() == (REPOSITORY / "LICENSE").read_text()
