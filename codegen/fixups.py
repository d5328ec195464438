"""Where the published description differs from the server, it is repaired here.

Each fix-up is one fault. It returns the places it repaired: none when the fault is gone, so that
the pass can be removed with the last version that needs it, and None when this version has
nothing the fix-up is about.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from codegen.document import Document, operations_of, schemas_of
from codegen.schemas import TARGET

Places: TypeAlias = list[str] | None
FixUp: TypeAlias = Callable[[Document], Places]

JSON_BODY = ("content", "application/json", "schema")


def partial_machine_configuration(document: Document) -> Places:
    """PATCH /machine-config takes any subset of the fields; described with those that PUT requires."""
    operation = _operation(document, "patch", "/machine-config")
    if operation is None:
        return None
    media = operation["requestBody"]["content"]["application/json"]
    if media["schema"] != {"$ref": TARGET + "MachineConfiguration"}:
        return []
    schemas = schemas_of(document)
    partial = copy.deepcopy(schemas["MachineConfiguration"])
    partial.pop("required", None)
    schemas["PartialMachineConfiguration"] = partial
    media["schema"] = {"$ref": TARGET + "PartialMachineConfiguration"}
    return ["PATCH /machine-config"]


def required_bodies(document: Document) -> Places:
    """The server answers 400 to these calls without a body; described as optional."""
    return _repaired(
        (_require_body(operation, place) for place, operation in _operations_with_body(document))
    )


def required_sizes(document: Document) -> Places:
    """The server insists on both memory sizes; described as optional."""
    sizes = {
        "MemoryHotplugConfig": "total_size_mib",
        "MemoryHotplugSizeUpdate": "requested_size_mib",
    }
    present = {name: size for name, size in sizes.items() if name in schemas_of(document)}
    return _repaired(_require(document, name, size) for name, size in present.items())


def mmds_answer(document: Document) -> Places:
    """GET /mmds answers what PUT /mmds stored; described as an object of its own."""
    operation = _operation(document, "get", "/mmds")
    if operation is None:
        return None
    media = operation["responses"]["200"]["content"]["application/json"]
    if "$ref" in media["schema"]:
        return []
    media["schema"] = {"$ref": TARGET + "MmdsContentsObject"}
    return ["GET /mmds"]


def mmds_free_form(document: Document) -> Places:
    """The metadata is any JSON object; until 1.13 nothing says that it has members."""
    return _set(document, "MmdsContentsObject", {"additionalProperties": True})


def mmds_too_large(document: Document) -> Places:
    """Metadata over the store's limit is a 413; not described."""
    return _repaired(
        _add_status(operation, f"{method.upper()} {path}", "413", "Content Too Large")
        for path, method, operation in operations_of(document)
        if path == "/mmds" and method in ("put", "patch")
    )


def cpu_config(document: Document) -> Places:
    """Until 1.13 the CPU template is described as a string or its lists as objects: any object."""
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
    """Starting and stopping free page hinting answers 204; 1.14.0 to 1.15.1 are described with 200."""
    return _repaired(
        _rename_status(operation, f"{method.upper()} {path}", "200", "204", "No Content")
        for path, method, operation in operations_of(document)
        if path in ("/balloon/hinting/start", "/balloon/hinting/stop")
    )


def patterns(document: Document) -> Places:
    """A regular expression belongs into `pattern`; described as `format`, with its dots unescaped."""
    strings = [
        (place, schema)
        for place, schema in _described(document)
        if schema.get("type") == "string" and "format" in schema
    ]
    return _repaired(_pattern(schema, place) for place, schema in strings)


def defaults(document: Document) -> Places:
    """The server has its own defaults; a client that sends the described ones changes settings."""
    return _repaired(_no_default(schema, place) for place, schema in _described(document))


def tags(document: Document) -> Places:
    """Operations are grouped by what they are about, the first word of the path; none is described."""
    return _repaired(
        _tag(operation, path, f"{method.upper()} {path}")
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
    """Apply every fix-up to the document; the notes say what each did or why it did nothing."""
    return [_note(fix_up, fix_up(document), document) for fix_up in FIX_UPS]


def _note(fix_up: FixUp, places: Places, document: Document) -> str:
    name, version = fix_up.__name__, document["info"]["version"]
    if places is None:
        return f"fix-up {name}: nothing in {version} to apply it to"
    if not places:
        return f"fix-up {name}: no longer needed in {version}"
    return f"fix-up {name}: repaired {len(places)} ({', '.join(places[:3])}{', ...' * (len(places) > 3)})"


def _repaired(results: Iterable[Places]) -> Places:
    """The places of several repairs; None when there was nothing to look at."""
    found = list(results)
    return [place for places in found for place in places or []] if found else None


def _operation(document: Document, method: str, path: str) -> Document | None:
    operation: Document | None = document["paths"].get(path, {}).get(method)
    return operation


def _operations_with_body(document: Document) -> Iterator[tuple[str, Document]]:
    needed = {"/cpu-config", "/machine-config", "/mmds"}
    for path, method, operation in operations_of(document):
        if path in needed and "requestBody" in operation:
            yield f"{method.upper()} {path}", operation


def _require_body(operation: Document, place: str) -> Places:
    if operation["requestBody"]["required"]:
        return []
    operation["requestBody"]["required"] = True
    return [place]


def _require(document: Document, name: str, field: str) -> Places:
    required = schemas_of(document)[name].setdefault("required", [])
    if field in required:
        return []
    required.append(field)
    return [f"{name}.{field}"]


def _set(document: Document, name: str, facts: Document) -> Places:
    schema = schemas_of(document).get(name)
    if schema is None:
        return None
    if facts.items() <= schema.items():
        return []
    schema |= facts
    return [name]


def _add_status(operation: Document, place: str, status: str, phrase: str) -> Places:
    responses = operation["responses"]
    if status in responses:
        return []
    responses[status] = {
        "description": phrase,
        "content": copy.deepcopy(responses["400"]["content"]),
    }
    return [place]


def _rename_status(operation: Document, place: str, old: str, new: str, phrase: str) -> Places:
    responses = operation["responses"]
    if old not in responses:
        return []
    del responses[old]
    operation["responses"] = {new: {"description": phrase}} | responses
    return [place]


def _described(document: Document) -> Iterator[tuple[str, Document]]:
    """Every named schema and every property of one, with its place."""
    for name, schema in schemas_of(document).items():
        yield name, schema
        for field, member in schema.get("properties", {}).items():
            yield f"{name}.{field}", member


def _pattern(schema: Document, place: str) -> Places:
    if re.fullmatch(r"[a-z0-9-]+", schema["format"]):
        return []
    expression = re.sub(r"(?<!\\)\.", r"\\.", schema.pop("format"))
    schema["pattern"] = f"^{expression}$"
    return [place]


def _no_default(schema: Document, place: str) -> Places:
    if "default" not in schema:
        return []
    schema["x-default"] = schema.pop("default")
    return [place]


def _tag(operation: Document, path: str, place: str) -> Places:
    if operation.get("tags"):
        return []
    operation["tags"] = [path.split("/")[1] or "instance"]
    return [place]
