"""What another monitor version changes for a user of the client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from codegen.document import TARGET, Document, answer_of, body_of, operations_of, schemas_of
from codegen.schemas import BOUNDS

# What is described, by place: an operation, a model or a field, each with its facts as text.
Facts: TypeAlias = dict[str, dict[str, str]]


def changes(old: Document, new: Document) -> Iterator[str]:
    """One line for everything that comes (+), goes (-) or changes (~), in reading order."""
    for before, after in (
        (_operations(old), _operations(new)),
        (_models(old), _models(new)),
        (_fields(old), _fields(new)),
    ):
        for place in before | after:
            yield from _changes_at(place, before.get(place), after.get(place))


def _changes_at(
    place: str, before: dict[str, str] | None, after: dict[str, str] | None
) -> Iterator[str]:
    if before is None or after is None:
        sign, facts = ("+", after) if after is not None else ("-", before)
        yield f"{sign} {place}{_in_words(facts or {})}"
        return
    for fact in before | after:
        was, now = before.get(fact, "-"), after.get(fact, "-")
        if was != now:
            yield f"~ {place}: {fact} {was} -> {now}"


def _in_words(facts: dict[str, str]) -> str:
    return "".join(f"{': ' if not n else ', '}{fact} {facts[fact]}" for n, fact in enumerate(facts))


def _operations(document: Document) -> Facts:
    return {
        f"{method.upper()} {path}": _operation_facts(operation)
        for path, method, operation in operations_of(document)
    }


def _operation_facts(operation: Document) -> dict[str, str]:
    facts = {"member": str(operation.get("x-member", "none"))}
    body, answer = body_of(operation), answer_of(operation)
    if body is not None:
        facts["sends"] = _type(body)
        facts["body"] = "required" if operation["requestBody"]["required"] else "optional"
    if answer is not None:
        facts["answers"] = _type(answer)
    facts["statuses"] = " ".join(sorted(operation["responses"]))
    return facts


def _models(document: Document) -> Facts:
    return {f"model {name}": _schema_facts(schema) for name, schema in _named(document)}


def _fields(document: Document) -> Facts:
    return {
        f"field {name}.{field}": _schema_facts(member)
        | {"required": "yes" if field in schema.get("required", []) else "no"}
        for name, schema in _named(document)
        for field, member in schema.get("properties", {}).items()
    }


def _named(document: Document) -> Iterator[tuple[str, Document]]:
    yield from schemas_of(document).items()


def _schema_facts(schema: Document) -> dict[str, str]:
    facts = {"type": _type(schema)}
    facts |= {key: str(schema[key]) for key in (*BOUNDS, "pattern", "nullable") if key in schema}
    if "enum" in schema:
        facts["values"] = " ".join(repr(value) for value in schema["enum"])
    if "x-default" in schema:
        facts["monitor's default"] = repr(schema["x-default"])
    return facts


def _type(schema: Document) -> str:
    """The type as a reader of a model names it."""
    for reference in (schema, *schema.get("allOf", [])):
        if "$ref" in reference:
            return str(reference["$ref"]).removeprefix(TARGET)
    if "items" in schema:
        return f"list of {_type(schema['items'])}"
    if schema.get("additionalProperties"):
        return "free-form object"
    return str(schema.get("type", "any"))
