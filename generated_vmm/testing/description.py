"""The monitor's API as `make codegen` describes it: operations, schemas, and shown state."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Spec: TypeAlias = Mapping[str, Any]
"""A type: `ref` to a schema, or `type` with `enum`, `items`, `values`, `minimum`, `maximum`."""

ZEROS: Final[Mapping[str, Json]] = {
    "boolean": False, "integer": 0, "number": 0, "string": "", "array": [], "object": {},
}  # fmt: skip


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
        """The segments of the path without its parameter."""
        return [part for part in self.path.split("/") if part and part[0] != "{"]

    @property
    def parameter(self) -> str:
        """The name of the id at the end of the path; empty if there is none."""
        return self.path.partition("{")[2].removesuffix("}")


class Description:
    """The API of one release, from the content of an `api.json`."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.version: str = table["version"]
        self.schemas: Mapping[str, Spec] = table["schemas"]
        self.operations = tuple(Operation(**entry) for entry in table["operations"])

    def fields(self, schema: str | None) -> Mapping[str, Spec]:
        """The fields of an object by name; none of any other schema."""
        fields: Mapping[str, Spec] = self.schemas.get(schema or "", {}).get("fields", {})
        return fields

    @cached_property
    def resources(self) -> Mapping[str, Operation]:
        """The resources that can be PUT, by path without the id, such as `/drives`."""
        puts = (one for one in self.operations if one.method == "PUT")
        return {"/" + "/".join(one.parts): one for one in puts}

    def resource(self, operation: Operation) -> str:
        """The path of the resource of an operation; its own path if nothing is PUT there."""
        parts = operation.parts
        above = ("/" + "/".join(parts[:length]) for length in range(len(parts), 0, -1))
        return next((path for path in above if path in self.resources), operation.path)

    @cached_property
    def shown(self) -> Mapping[str, tuple[str, bool]]:
        """The members of GET /vm/config: the path of the resource, and whether it is a list."""
        shown = next((one.answer for one in self.operations if one.path == "/vm/config"), None)
        paths = {one.body: path for path, one in self.resources.items()}
        return {
            member: (paths.get(spec.get("items", spec).get("ref"), ""), "items" in spec)
            for member, spec in self.fields(shown).items()
        }

    def shaped(self, schema: str | None, value: Json) -> Json:
        """The value with only the fields of the schema; missing required ones are empty."""
        spec = self.schemas.get(schema or "", {})
        if not isinstance(value, dict) or "fields" not in spec:
            return value
        known = {name: value[name] for name in value if name in spec["fields"]}
        lacking = [name for name in spec["required"] if name not in known]
        return known | {name: self._empty(spec["fields"][name]) for name in lacking}

    def _empty(self, spec: Spec) -> Json:
        while "ref" in spec:
            spec = self.schemas[spec["ref"]]
        if "fields" in spec:
            return {name: self._empty(spec["fields"][name]) for name in spec["required"]}
        first: Json = spec["enum"][0] if "enum" in spec else ZEROS.get(spec.get("type", ""))
        return first


CURRENT: Final = Description(
    json.loads(Path(__file__).parents[1].joinpath("_generated", "api.json").read_bytes())
)
"""The API of the release that the client was generated from."""
