"""From the imported facts to the description that the package is generated from."""

from __future__ import annotations

import copy
import inspect
import keyword
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from pydantic import BaseModel

from codegen.document import (
    TARGET,
    Document,
    Unusable,
    answer_of,
    body_of,
    operations_of,
    schemas_of,
)
from codegen.fixups import repair
from codegen.overlay import Action, apply_overlay

# What the templates import into the modules of the models.
IMPORTED = {
    "Absent", "Annotated", "AnsweredAs", "ApiDocument", "ApiModel", "Field", "JsonValue",
    "Literal", "NotRequired", "Operation", "TypeAlias", "TypedDict",
}  # fmt: skip

# What every model has beside what pydantic gives it. Not read from `generated_vmm`: the package
# cannot be imported while its generated half is missing or broken, and then this has to run.
OWN_METHODS = {"from_answer", "to_json"}


def describe(facts: Document, overlay: list[Action]) -> tuple[Document, list[str]]:
    """The repaired description in our words, and notes on what did or did not apply."""
    document = copy.deepcopy(facts)
    notes = repair(document)
    _name_inline_objects(document)
    _wrap_references(document)
    notes += apply_overlay(document, overlay)
    notes += [f"overlay: no words for {place}" for place in _without_words(document)]
    return document, notes


def for_generator(document: Document) -> Document:
    """The description as openapi-python-client is to see it, with notes (`x-`) to our templates.

    Raises `Unusable` when an operation takes or answers something else than a named schema, or
    when schemas contain each other.
    """
    document = copy.deepcopy(document)
    _require_order(schemas_of(document))
    _require_free_names(schemas_of(document))
    _require_models(schemas_of(document))
    sent = _sent_schemas(document)
    for name, schema in schemas_of(document).items():
        schema["x-fields"] = name in sent and "properties" in schema
        schema["x-in-path"] = sorted(sent.get(name, ()))
        for field, member in schema.get("properties", {}).items():
            _annotate(field, member)
    for path, method, operation in operations_of(document):
        _one_answer(operation, f"{method.upper()} {path}")
        # The generator keeps no operationId; the summary carries it to the template.
        operation["summary"] = operation["operationId"]
        operation["description"] = _docstring(operation, f"{method.upper()} {path}")
    return document


def references_in(value: object) -> Iterator[str]:
    """The names of the schemas that a part of a document refers to."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"].removeprefix(TARGET)
        for member in value.values():
            yield from references_in(member)
    elif isinstance(value, list):
        for element in value:
            yield from references_in(element)


def _name_inline_objects(document: Document) -> None:
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
        raise Unusable(f"components/schemas/{name}: two schemas would get this name")
    schemas[name] = dict(schema)
    schema.clear()
    schema["$ref"] = TARGET + name


def _pascal(*words: str) -> str:
    parts = [part for word in words for part in word.replace("-", "_").split("_")]
    return "".join(part[:1].upper() + part[1:] for part in parts)


def _wrap_references(document: Document) -> None:
    """A property that is a bare reference gets room for words beside it."""
    for schema in schemas_of(document).values():
        for member in schema.get("properties", {}).values():
            if "$ref" in member:
                member["allOf"] = [{"$ref": member.pop("$ref")}]


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
    """The schemas that occur in request bodies, each with its members that the path repeats."""
    sent: dict[str, set[str]] = {}
    for _, _, operation in operations_of(document):
        body = body_of(operation)
        for name in references_in(body):
            in_path = {parameter["name"] for parameter in operation.get("parameters", [])}
            members = schemas_of(document)[name].get("properties", {})
            sent.setdefault(name, set()).update(in_path & set(members))
    waiting = list(sent)
    while waiting:
        inner = set(references_in(schemas_of(document)[waiting.pop()])) - set(sent)
        sent |= {name: set() for name in inner}
        waiting += inner
    return sent


def _require_order(schemas: Document) -> None:
    """The modules of the models import each other, which works in one direction only."""
    try:
        TopologicalSorter({n: list(references_in(schemas[n])) for n in schemas}).prepare()
    except CycleError as error:
        circle = " -> ".join(error.args[1])
        raise Unusable(f"#/components/schemas: a circle of references, {circle}") from error


def _require_free_names(schemas: Document) -> None:
    """A model may not take the name of what its module imports or of another's arguments."""
    for name in schemas:
        if name in IMPORTED or name.removesuffix("Fields") in schemas.keys() - {name}:
            raise Unusable(f"#/components/schemas/{name}: generated code has this name already")


def _require_models(schemas: Document) -> None:
    """What is named becomes a model or an alias of values; anything else would lose its limits."""
    for name, schema in schemas.items():
        if schema.get("nullable") or (schema.get("type") != "object" and "enum" not in schema):
            raise Unusable(f"#/components/schemas/{name}: neither an object nor an enum")


def _annotate(field: str, member: Document) -> None:
    """Keep the generator from making types we do not want; what it cannot say goes into `x-`."""
    if member.pop("nullable", False):
        member["x-nullable"] = True
    if member.get("type") == "string":
        member.pop("format", None)
    name = field.replace("-", "_")
    if _is_taken(name):
        member["x-python-name"] = f"{name}_"


def _docstring(operation: Document, endpoint: str) -> str:
    words = str(operation.get("description", operation["operationId"]))
    phase = f". Phase: {operation['x-phase']}" if "x-phase" in operation else ""
    return f"{words}\n\n{endpoint}{phase}."


def _is_taken(name: str) -> bool:
    """Whether a field of this name would hide what every model has, its metaclass included."""
    inherited = {*dir(BaseModel), *(known for known, _ in inspect.getmembers(type(BaseModel)))}
    return name in inherited | OWN_METHODS or keyword.iskeyword(name)


def _one_answer(operation: Document, place: str) -> None:
    successes = [status for status in operation["responses"] if status.startswith("2")]
    if len(successes) != 1:
        raise Unusable(f"{place}: expected one 2xx status, found {successes}")
    for schema in (body_of(operation), answer_of(operation)):
        if schema is not None and "$ref" not in schema:
            raise Unusable(f"{place}: a body that is no named schema cannot be generated")
