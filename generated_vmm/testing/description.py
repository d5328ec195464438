"""The description of the monitor's API as codegen left it for us: operations and shapes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Spec: TypeAlias = Mapping[str, Any]

TABLE: Final[dict[str, Any]] = json.loads(
    Path(__file__).parents[1].joinpath("_generated", "api.json").read_bytes()
)
VERSION: Final[str] = TABLE["version"]
SCHEMAS: Final[Mapping[str, Spec]] = TABLE["schemas"]
CONFIG: Final[Mapping[str, Spec]] = SCHEMAS.get("FullVmConfiguration", {}).get("fields", {})
"""The members of GET /vm/config."""


@dataclass(frozen=True)
class Operation:
    """One operation; `path` has the name of its parameter in braces."""

    method: str
    path: str
    phase: str
    body: str | None
    body_required: bool
    answer: str | None

    @property
    def endpoint(self) -> str:
        """Method and path, as in `PUT /balloon`."""
        return f"{self.method} {self.path}"

    @property
    def parts(self) -> list[str]:
        """The segments of the path."""
        return [part for part in self.path.split("/") if part]

    @property
    def parameter(self) -> str:
        """The name of the member that repeats the id in the path; empty without an id."""
        last = self.parts[-1] if self.parts else ""
        return last[1:-1] if last.startswith("{") else ""


OPERATIONS: Final = tuple(Operation(**entry) for entry in TABLE["operations"])


@cache
def config_member(path: str) -> str | None:
    """The member of GET /vm/config that shows what is PUT to this path; None when none does."""
    bodies = {one.body for one in OPERATIONS if one.path == path and one.method == "PUT"}
    for member, spec in CONFIG.items():
        if spec.get("items", spec).get("ref") in bodies:
            return member
    return None
