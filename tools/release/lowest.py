"""`tools.release.lowest`: the lowest versions that both distributions allow, as constraints."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

REPOSITORY = Path(__file__).parents[2]
PROJECTS = (REPOSITORY / "pyproject.toml", REPOSITORY / "generated_vmm" / "pyproject.toml")
OURS = "generated-vmm"


def lowest(*projects: Mapping[str, Any]) -> Iterator[str]:
    """One line for each dependency of the `[project]` tables and their extras, but ours.

    Raises ValueError for a dependency without a lower bound.
    """
    groups = [
        group
        for project in projects
        for group in (project["dependencies"], *project["optional-dependencies"].values())
    ]
    for requirement in map(Requirement, sorted({line for group in groups for line in group})):
        if requirement.name != OURS:
            yield f"{requirement.name}=={_lower_bound(requirement)}"


def _lower_bound(requirement: Requirement) -> str:
    bounds = [part.version for part in requirement.specifier if part.operator in {">=", "=="}]
    if len(bounds) != 1:
        raise ValueError(f"{requirement} has no lower bound")
    return bounds[0]


if __name__ == "__main__":
    print(*lowest(*(tomllib.loads(path.read_text())["project"] for path in PROJECTS)), sep="\n")
