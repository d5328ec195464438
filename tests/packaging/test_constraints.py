"""Everybody develops, and CI tests, with the same versions."""

from __future__ import annotations

import re
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.built import REPOSITORY, brought

PYPROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
CLIENT = tomllib.loads((REPOSITORY / "generated_vmm" / "pyproject.toml").read_text())
LINE = re.compile(r"([A-Za-z0-9._-]+)==([^\s=*]+)")


def pinned() -> dict[str, str]:
    """The exact version of each package."""
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()[1:]
    found = [LINE.fullmatch(line) for line in lines]
    assert None not in found
    return {canonicalize_name(match[1]): match[2] for match in found if match}


def declared() -> list[Requirement]:
    """What both distributions and the development need, except one another."""
    projects, groups = (PYPROJECT["project"], CLIENT["project"]), PYPROJECT["dependency-groups"]
    lists = list(groups.values())
    for project in projects:
        lists += [project["dependencies"], *project["optional-dependencies"].values()]
    found = [Requirement(line) for lines in lists for line in lines if isinstance(line, str)]
    return [requirement for requirement in found if requirement.name != CLIENT["project"]["name"]]


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
