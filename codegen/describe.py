"""From the imported facts to the description from which the package is generated."""

from __future__ import annotations

import copy
import inspect
import json
import keyword
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel

from codegen.document import (
    CORRECT,
    TARGET,
    Document,
    Unusable,
    answer_of,
    base_path,
    body_of,
    is_free_form,
    operations_of,
    parameters_in,
    references_in,
    schemas_of,
)
from codegen.fixups import repair
from codegen.overlay import Action, apply_overlay
from codegen.releases import Releases
from codegen.requirements import CORE, require_generable

# The beginning of our descriptions of paths on the host.
HOST_PATH = "Host path "

# The end of the names of sizes in MiB.
MEBIBYTES = "_mib"

ARGUMENTS = {
    "minimum": "ge", "maximum": "le", "minLength": "min_length", "maxLength": "max_length",
    "minItems": "min_length", "maxItems": "max_length", "pattern": "pattern",
}  # fmt: skip

# The members of every model besides pydantic's. They are not read from `generated_vmm`: this module
# must work while the package's generated half is missing or broken, and cannot be imported.
OWN_NAMES = {"from_answer", "ids_in_path", "later_fields", "made_for", "to_json"}


def describe(
    facts: Document,
    overlay: list[Action],
    releases: Releases | None = None,
) -> tuple[Document, list[str]]:
    """The repaired description with our texts, and notes on fix-ups and overlay."""
    document, notes = repaired(facts)
    lacked = releases.lacked_by(document) if releases else {}
    notes += apply_overlay(document, overlay, lacked)
    _note_later_fields(document, lacked)
    notes += [f"overlay: no words for {place}" for place in _without_words(document)]
    return document, notes


def repaired(facts: Document) -> tuple[Document, list[str]]:
    """The description without its faults, and notes on the fix-ups."""
    document = copy.deepcopy(facts)
    notes = repair(document)
    name_inline_objects(document)
    wrap_references(document)
    return document, notes


def for_generator(document: Document, core: Mapping[str, str] = CORE) -> Document:
    """The description for openapi-python-client, with notes (`x-`) for our templates.

    Raises `Unusable` for a description that no client can be generated from.
    """
    document = copy.deepcopy(document)
    require_generable(document, core)
    sent = _sent_schemas(document)
    for name, schema in schemas_of(document).items():
        schema["x-free-form"] = is_free_form(schema)
        schema["x-fields"] = name in sent and schema["type"] == "object"
        schema["x-in-path"] = sorted(sent.get(name, ()))
        for field, member in schema.get("properties", {}).items():
            _annotate(field, member)
    base = base_path(document)
    document["paths"] = {base + path: item for path, item in document["paths"].items()}
    for path, method, operation in operations_of(document):
        # The generator keeps no operationId; the summary carries it to the template.
        operation["summary"] = operation["operationId"]
        for parameter in operation.get("parameters", []):
            parameter["schema"].pop("default", None)  # the monitor applies its own
        operation["description"] = docstring(operation, f"{method.upper()} {path}")
    return document


def name_inline_objects(document: Document) -> None:
    """Every object becomes a named schema, so that it gets one model with a plain name."""
    schemas = schemas_of(document)
    waiting = list(schemas)
    while waiting:
        name = waiting.pop()
        before = set(schemas)
        for field, member in schemas[name].get("properties", {}).items():
            _name_if_object(schemas, member, _pascal(name, field))
            _name_if_object(schemas, member.get("items"), _pascal(name, field, "item"))
        _name_if_object(schemas, schemas[name].get("additionalProperties"), _pascal(name, "value"))
        waiting += sorted(set(schemas) - before)


def _name_if_object(schemas: Document, schema: object, name: str) -> None:
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return
    if name in schemas:
        raise Unusable("two schemas would get this name", TARGET + name, CORRECT)
    schemas[name] = dict(schema)
    schema.clear()
    schema["$ref"] = TARGET + name


def _pascal(*words: str) -> str:
    parts = [part for word in words for part in word.replace("-", "_").split("_")]
    return "".join(part[:1].upper() + part[1:] for part in parts)


def wrap_references(document: Document) -> None:
    """A property that is a bare reference becomes an object with room for a description."""
    for schema in schemas_of(document).values():
        for member in schema.get("properties", {}).values():
            if "$ref" in member:
                member["allOf"] = [{"$ref": member.pop("$ref")}]


def _note_later_fields(document: Document, lacked: Mapping[str, str]) -> None:
    """Adds to every object its fields of other releases, with these releases."""
    for place, since in lacked.items():
        name, _, field = place.partition(".")
        schema = schemas_of(document).get(name, {})
        if field and schema.get("properties"):
            schema["x-version"] = document["info"]["version"]
            schema.setdefault("x-later", {})[field.replace("-", "_")] = since


def _without_words(document: Document) -> Iterator[str]:
    for name, schema in schemas_of(document).items():
        if "description" not in schema:
            yield name
        for field, member in schema.get("properties", {}).items():
            if "description" not in member:
                yield f"{name}.{field}"
    for path, method, operation in operations_of(document):
        if "description" not in operation:
            yield f"{method.upper()} {path}"


def _sent_schemas(document: Document) -> dict[str, set[str]]:
    """The schemas of request bodies, each with its members that are in the path too."""
    sent: dict[str, set[str]] = {}
    for _, _, operation in operations_of(document):
        body = body_of(operation)
        for name in references_in(body):
            in_path = set(parameters_in("path", operation))
            members = schemas_of(document)[name].get("properties", {})
            sent.setdefault(name, set()).update(in_path & set(members))
    waiting = list(sent)
    while waiting:
        inner = set(references_in(schemas_of(document)[waiting.pop()])) - set(sent)
        sent |= {name: set() for name in inner}
        waiting += inner
    return sent


def _annotate(field: str, member: Document) -> None:
    """Keep the generator from creating unwanted types; facts that it cannot express are `x-`."""
    if member.pop("nullable", False):
        member["x-nullable"] = True
    if member.get("type") == "string":
        member["x-bytes"] = member.pop("format", "") == "byte"
    member["x-unique"] = member.pop("uniqueItems", False)
    member["x-host-path"] = is_host_path(member)
    member["x-limits"] = limits(member)
    member["x-mebibytes"] = field.endswith(MEBIBYTES) and member.get("type") == "integer"
    name = field.replace("-", "_")
    if python_name(field) != name:
        member["x-python-name"] = python_name(field)
    member["x-keyword"] = f"{name}_" if keyword.iskeyword(name) else name


def python_name(field: str) -> str:
    """The attribute of a model that holds a described field."""
    name = field.replace("-", "_")
    return f"{name}_" if _is_taken(name) else name


def is_host_path(member: Document) -> bool:
    """Whether our description says that a text is a path: then path objects are accepted."""
    return member.get("type") == "string" and str(member.get("description")).startswith(HOST_PATH)


def limits(member: Document) -> str:
    """The description of a value besides its type, as arguments of pydantic's `Field`.

    Removed from the member: the generator stores bounds as floats, which have 53 bits.
    """
    found = {ARGUMENTS[key]: member.pop(key) for key in ARGUMENTS if key in member}
    return ", ".join(f"{argument}={value!r}" for argument, value in found.items())


def docstring(operation: Document, endpoint: str) -> str:
    """What a call does, its endpoint and its phase."""
    words = str(operation.get("description", operation["operationId"]))
    phase = f". Phase: {operation['x-phase']}" if "x-phase" in operation else ""
    return f"{words}\n\n{endpoint}{phase}."


def _is_taken(name: str) -> bool:
    """Whether a field of this name would hide a member of every model or of its metaclass."""
    inherited = {*dir(BaseModel), *(known for known, _ in inspect.getmembers(type(BaseModel)))}
    return name in inherited | OWN_NAMES or keyword.iskeyword(name)


FILE = "api.json"
KEPT = ("type", "enum", "minimum", "maximum", "default")


def write_table(document: Document, target: Path) -> None:
    """Write the table of a described API into the package's folder."""
    base = base_path(document)
    table = {
        "version": document["info"]["version"],
        "operations": [_operation(base, *place) for place in operations_of(document)],
        "schemas": {name: _schema(schema) for name, schema in schemas_of(document).items()},
    }
    (target / FILE).write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


def _operation(base: str, path: str, method: str, operation: Document) -> Document:
    return {
        "method": method.upper(),
        "path": base + path,
        "phase": operation.get("x-phase", "any"),
        "body": _name(body_of(operation)),
        "body_required": operation.get("requestBody", {}).get("required", False),
        "answer": _name(answer_of(operation)),
    }


def _name(schema: Document | None) -> str | None:
    return None if schema is None else _schema(schema).get("ref")


def _schema(schema: Document) -> Document:
    """The constraints of a value, without its description."""
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
