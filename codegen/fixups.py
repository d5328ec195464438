"""Repairs of the published description where it differs from the server.

Each fix-up repairs one fault, and returns the places that it repaired. The list is empty if the
fault is gone: remove the fix-up with the last version that needs it. It is None if this version
does not have the part that the fix-up is about.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from codegen.document import TARGET, Document, answer_of, body_of, operations_of, schemas_of

# None: nothing to check. Empty: checked, and correct.
Places: TypeAlias = list[str] | None


def repaired(results: Iterable[Places]) -> Places:
    """The places of several repairs; None if there was nothing to check."""
    found = list(results)
    return [place for places in found for place in places or []] if found else None


def operations_at(document: Document, *paths: str) -> Iterator[tuple[str, Document]]:
    """The operations of some paths, each with its place."""
    for path, method, operation in operations_of(document):
        if path in paths:
            yield f"{method.upper()} {path}", operation


def require_body(operation: Document, place: str) -> Places:
    """Make the body required."""
    if operation["requestBody"]["required"]:
        return []
    operation["requestBody"]["required"] = True
    return [place]


def require(document: Document, name: str, field: str) -> Places:
    """Make the member of a schema required."""
    required = schemas_of(document)[name].setdefault("required", [])
    if field in required:
        return []
    required.append(field)
    return [f"{name}.{field}"]


def set_facts(document: Document, name: str, facts: Document) -> Places:
    """Replace these facts of the schema."""
    schema = schemas_of(document).get(name)
    if schema is None:
        return None
    if facts.items() <= schema.items():
        return []
    schema |= facts
    return [name]


def add_status(operation: Document, place: str, status: str, phrase: str) -> Places:
    """Add a status to the operation, with the response of its 400."""
    responses = operation["responses"]
    if status in responses:
        return []
    responses[status] = copy.deepcopy(responses.get("400", {})) | {"description": phrase}
    return [place]


def rename_status(operation: Document, place: str, old: str, new: str, phrase: str) -> Places:
    """Replace a status of the operation by another one, without a body."""
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
    """Move a format that is an expression, and not a name, to the pattern of the whole text."""
    if re.fullmatch(r"[a-z0-9-]*", schema.get("format", "")):
        return []
    expression = re.sub(r"(?<!\\)\.(?![*+?{])", r"\\.", schema.pop("format"))
    schema["pattern"] = f"^{expression}$"
    return [place]


def no_default(schema: Document, place: str) -> Places:
    """Note the default for readers only; clients do not send it."""
    if "default" not in schema:
        return []
    schema["x-default"] = schema.pop("default")
    return [place]


def add_tag(operation: Document, path: str, place: str) -> Places:
    """Add the operation to the group that its path begins with."""
    if operation.get("tags"):
        return []
    operation["tags"] = [path.split("/")[1] or "instance"]
    return [place]


FixUp: TypeAlias = Callable[[Document], Places]

SHOWN = 3  # places that a note names


def partial_machine_configuration(document: Document) -> Places:
    """PATCH /machine-config takes any subset of the fields; described with PUT's required ones."""
    body = body_of(document["paths"].get("/machine-config", {}).get("patch", {}))
    if body is None:
        return None
    if body != {"$ref": TARGET + "MachineConfiguration"}:
        return []
    schemas = schemas_of(document)
    schemas["PartialMachineConfiguration"] = copy.deepcopy(schemas["MachineConfiguration"])
    schemas["PartialMachineConfiguration"].pop("required", None)
    body["$ref"] = TARGET + "PartialMachineConfiguration"
    return ["PATCH /machine-config"]


def required_bodies(document: Document) -> Places:
    """The server returns 400 to these calls without a body; described as optional."""
    paths = ("/cpu-config", "/machine-config", "/mmds")
    return repaired(
        require_body(operation, place)
        for place, operation in operations_at(document, *paths)
        if "requestBody" in operation
    )


def required_sizes(document: Document) -> Places:
    """The server requires both memory sizes; described as optional."""
    sizes = {
        "MemoryHotplugConfig": "total_size_mib",
        "MemoryHotplugSizeUpdate": "requested_size_mib",
    }
    return repaired(
        require(document, name, size)
        for name, size in sizes.items()
        if size in schemas_of(document).get(name, {}).get("properties", {})
    )


def mmds_answer(document: Document) -> Places:
    """GET /mmds returns what PUT /mmds stored; described as an object of its own."""
    answer = answer_of(document["paths"].get("/mmds", {}).get("get", {"responses": {}}))
    if answer is None or "MmdsContentsObject" not in schemas_of(document):
        return None
    if "$ref" in answer:
        return []
    answer.clear()
    answer["$ref"] = TARGET + "MmdsContentsObject"
    return ["GET /mmds"]


def mmds_free_form(document: Document) -> Places:
    """The metadata is any JSON object; described without members until 1.13."""
    return set_facts(document, "MmdsContentsObject", {"additionalProperties": True})


def mmds_too_large(document: Document) -> Places:
    """Metadata over the store's limit returns 413; not described."""
    return repaired(
        add_status(operation, place, "413", "Content Too Large")
        for place, operation in operations_at(document, "/mmds")
        if "requestBody" in operation
    )


def cpu_config(document: Document) -> Places:
    """The CPU template is any object; described as a string, or with wrong lists, until 1.13."""
    schema = schemas_of(document).get("CpuConfig")
    if schema is None:
        return None
    members = schema.get("properties", {}).values()
    if schema.get("type") == "object" and all(member.get("type") == "array" for member in members):
        return []
    schema.clear()
    schema |= {"type": "object", "additionalProperties": True}
    return ["CpuConfig"]


def imds_compat(document: Document) -> Places:
    """1.13.0 misspells MmdsConfig.imds_compat; the server refuses the misspelt name."""
    members = schemas_of(document).get("MmdsConfig", {}).get("properties", {})
    if not {"imds_comat", "imds_compat"} & set(members):
        return None
    if "imds_comat" not in members:
        return []
    members["imds_compat"] = members.pop("imds_comat")
    return ["MmdsConfig.imds_compat"]


def hinting_status(document: Document) -> Places:
    """Free page hinting starts and stops with a 204; described with 200 from 1.14.0 to 1.15.1."""
    paths = ("/balloon/hinting/start", "/balloon/hinting/stop")
    return repaired(
        rename_status(operation, place, "200", "204", "No Content")
        for place, operation in operations_at(document, *paths)
    )


def patterns(document: Document) -> Places:
    """A regular expression belongs in `pattern`; described as `format`, with unescaped dots."""
    strings = [
        (place, schema)
        for place, schema in schemas_and_members(document)
        if schema.get("type") == "string" and {"format", "pattern"} & set(schema)
    ]
    return repaired(as_pattern(schema, place) for place, schema in strings)


def defaults(document: Document) -> Places:
    """The server has its own defaults; a client that sends the described ones changes settings."""
    return repaired(no_default(schema, place) for place, schema in schemas_and_members(document))


def tags(document: Document) -> Places:
    """Operations are grouped by the first word of their path; described without groups."""
    return repaired(
        add_tag(operation, path, f"{method.upper()} {path}")
        for path, method, operation in operations_of(document)
    )


FIX_UPS: tuple[FixUp, ...] = (
    imds_compat,
    cpu_config,
    mmds_answer,
    mmds_free_form,
    mmds_too_large,
    hinting_status,
    patterns,
    defaults,
    required_bodies,
    required_sizes,
    partial_machine_configuration,
    tags,
)


def repair(document: Document) -> list[str]:
    """Apply every fix-up to the document; the notes say what each did, or why it did nothing."""
    return [_note(fix_up, fix_up(document), document) for fix_up in FIX_UPS]


def _note(fix_up: FixUp, places: Places, document: Document) -> str:
    name, version = fix_up.__name__, document["info"]["version"]
    if places is None:
        return f"fix-up {name}: nothing in {version} to apply it to"
    if not places:
        return f"fix-up {name}: no longer needed in {version}"
    more = ", ..." if len(places) > SHOWN else ""
    return f"fix-up {name}: repaired {len(places)} ({', '.join(places[:SHOWN])}{more})"
