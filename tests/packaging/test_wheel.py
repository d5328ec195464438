"""What a user installs, and what it says is public."""

from __future__ import annotations

import re
import tomllib
import zipfile
from email.message import Message

import pytest

import fastapi_oidc
import fastapi_oidc.testing
import generated_vmm
from tests.packaging.built import REPOSITORY

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
LINK = re.compile(r"\]\(([^)]*)\)")


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
        "generated_vmm/testing/metrics.txt",
    ],
)
def test_the_wheel_has(wheel: zipfile.ZipFile, name: str) -> None:
    assert name in wheel.namelist()


def test_the_metadata_names_licence_authors_and_extras(metadata: Message) -> None:
    assert metadata["Name"] == "fastapi-oidc-vmm"
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Author"] == "The fastapi-oidc-vmm authors"
    assert metadata.get_all("Provides-Extra") == ["network", "redis", "sql", "testing"]


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


@pytest.mark.parametrize("package", [fastapi_oidc, fastapi_oidc.testing, generated_vmm])
def test_all_names_exist_once_and_in_order(package: object) -> None:
    names: list[str] = package.__all__  # type: ignore[attr-defined]  # every package has it
    assert len(names) == len(set(names))
    assert all(hasattr(package, name) for name in names)
