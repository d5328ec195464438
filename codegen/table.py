"""The description as a table for the simulated monitor: what is sent, answered and when."""

from __future__ import annotations

import json
from pathlib import Path

from codegen.document import TARGET, Document, answer_of, body_of, operations_of, schemas_of

FILE = "api.json"
KEPT = ("type", "enum", "minimum", "maximum", "default")


def write_table(document: Document, target: Path) -> None:
    """Write the table of a described API into the package's folder."""
    table = {
        "version": document["info"]["version"],
        "operations": [_operation(*place) for place in operations_of(document)],
        "schemas": {name: _schema(schema) for name, schema in schemas_of(document).items()},
    }
    (target / FILE).write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


def _operation(path: str, method: str, operation: Document) -> Document:
    return {
        "method": method.upper(),
        "path": path,
        "phase": operation.get("x-phase", "any"),
        "body": _name(body_of(operation)),
        "body_required": operation.get("requestBody", {}).get("required", False),
        "answer": _name(answer_of(operation)),
    }


def _name(schema: Document | None) -> str | None:
    return None if schema is None else _schema(schema)["ref"]


def _schema(schema: Document) -> Document:
    """What a value must be, without words about it."""
    if "allOf" in schema:
        return _schema(schema["allOf"][0])
    if "$ref" in schema:
        return {"ref": schema["$ref"].removeprefix(TARGET)}
    kept = {key: schema[key] for key in KEPT if key in schema}
    if "items" in schema:
        kept["items"] = _schema(schema["items"])
    if "properties" in schema:
        kept["required"] = schema.get("required", [])
        kept["fields"] = {name: _schema(one) for name, one in schema["properties"].items()}
    if isinstance(schema.get("additionalProperties"), dict):
        kept["values"] = _schema(schema["additionalProperties"])
    return kept
