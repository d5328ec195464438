"""The single steps of the fix-ups; each returns the places it repaired."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from codegen.document import Document, operations_of, schemas_of

# None: there was nothing to look at. Empty: what was looked at is right.
Places: TypeAlias = list[str] | None


def repaired(results: Iterable[Places]) -> Places:
    """The places of several repairs; None when there was nothing to look at."""
    found = list(results)
    return [place for places in found for place in places or []] if found else None


def operations_at(document: Document, *paths: str) -> Iterator[tuple[str, Document]]:
    """The operations of some paths, each with its place."""
    for path, method, operation in operations_of(document):
        if path in paths:
            yield f"{method.upper()} {path}", operation


def require_body(operation: Document, place: str) -> Places:
    """The body has to be sent."""
    if operation["requestBody"]["required"]:
        return []
    operation["requestBody"]["required"] = True
    return [place]


def require(document: Document, name: str, field: str) -> Places:
    """The member of a schema has to be there."""
    required = schemas_of(document)[name].setdefault("required", [])
    if field in required:
        return []
    required.append(field)
    return [f"{name}.{field}"]


def set_facts(document: Document, name: str, facts: Document) -> Places:
    """The schema says this, whatever it said."""
    schema = schemas_of(document).get(name)
    if schema is None:
        return None
    if facts.items() <= schema.items():
        return []
    schema |= facts
    return [name]


def add_status(operation: Document, place: str, status: str, phrase: str) -> Places:
    """The operation may answer so, with what it answers on 400."""
    responses = operation["responses"]
    if status in responses:
        return []
    responses[status] = copy.deepcopy(responses.get("400", {})) | {"description": phrase}
    return [place]


def rename_status(operation: Document, place: str, old: str, new: str, phrase: str) -> Places:
    """The operation answers with another status, and nothing."""
    responses = operation["responses"]
    if old not in responses:
        return []
    del responses[old]
    operation["responses"] = {new: {"description": phrase}} | responses
    return [place]


def schemas_and_members(document: Document) -> Iterator[tuple[str, Document]]:
    """Every named schema and every property of one, with its place."""
    for name, schema in schemas_of(document).items():
        yield name, schema
        for field, member in schema.get("properties", {}).items():
            yield f"{name}.{field}", member


def as_pattern(schema: Document, place: str) -> Places:
    """A format that is an expression, not a name, is the whole text's pattern."""
    if re.fullmatch(r"[a-z0-9-]*", schema.get("format", "")):
        return []
    expression = re.sub(r"(?<!\\)\.(?![*+?{])", r"\\.", schema.pop("format"))
    schema["pattern"] = f"^{expression}$"
    return [place]


def no_default(schema: Document, place: str) -> Places:
    """The value is noted for readers, not for senders."""
    if "default" not in schema:
        return []
    schema["x-default"] = schema.pop("default")
    return [place]


def add_tag(operation: Document, path: str, place: str) -> Places:
    """The operation belongs to the group that its path begins with."""
    if operation.get("tags"):
        return []
    operation["tags"] = [path.split("/")[1] or "instance"]
    return [place]
