"""Reports for users of the client: news, differences and members of a description."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from codegen.describe import python_name
from codegen.document import (
    TARGET,
    Document,
    answer_of,
    body_of,
    operations_of,
    references_in,
    schemas_of,
)
from codegen.schemas import BOUNDS

VALUES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
LINES = """\
client: {place} ({id}) has no member; `vm.send(operations.{function}(...))` calls it. To give it
  one, add to openapi/{overlay} (its name, its words, and when the monitor takes the call):
{entry}"""

ENTRY = """\
  - target: $.paths['{path}'].{method}
    update:
      x-member: {member}
      description: {words}
      x-phase: any
"""


def report(before: Document | None, after: Document, gone: set[str]) -> Iterator[str]:
    """The difference to the previous description, and names that have changed.

    `gone` are names that the package no longer exports.
    """
    if before is not None:
        versions = [document["info"]["version"] for document in (before, after)]
        for line in changes(before, after):
            yield f"{' -> '.join(versions)}: {line}"
        for place in sorted(moved_fields(after) - moved_fields(before)):
            yield f"name: {place}, because every model has a member of that name"
    for name in sorted(gone):
        yield f"name: {name} is gone from generated_vmm; programs that import it fail"


def moved_fields(document: Document) -> set[str]:
    """The fields that are renamed in Python, because their models cannot have their names."""
    return {
        f"{name}.{field} is {name}.{python_name(field)} in Python"
        for name, schema in schemas_of(document).items()
        for field in schema.get("properties", {})
        if python_name(field) != field.replace("-", "_")
    }


def without_member(document: Document) -> list[tuple[str, str, Document]]:
    """The operations that no member calls."""
    return [found for found in operations_of(document) if "x-member" not in found[2]]


def lines_to_write(
    place: str, operation: Document, function: str, member: str, overlay: str
) -> str:
    """The note on an operation without a member, with the entry of the overlay for one."""
    method, _, path = place.partition(" ")
    words = operation.get("description", f"Send {place}.")
    entry = ENTRY.format(path=path, method=method.lower(), member=member, words=words)
    return LINES.format(
        place=place, id=operation["operationId"], function=function, overlay=overlay, entry=entry
    ).rstrip()


def _answer(schema: Document) -> str:
    """The type of a response in Python."""
    if "items" in schema:
        return f"list[{_answer(schema['items'])}]"
    return f"models.{name}" if (name := next(references_in(schema), "")) else VALUES[schema["type"]]


# The facts of a description, by place: an operation, a model or a field, as text.
Facts: TypeAlias = dict[str, dict[str, str]]


def changes(old: Document, new: Document) -> Iterator[str]:
    """One line for each addition (+), removal (-) and change (~), in reading order."""
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
    """The type, in words."""
    for reference in (schema, *schema.get("allOf", [])):
        if "$ref" in reference:
            return str(reference["$ref"]).removeprefix(TARGET)
    if "items" in schema:
        return f"list of {_type(schema['items'])}"
    if schema.get("additionalProperties"):
        return "free-form object"
    return str(schema.get("type", "any"))


COLUMNS = """
## All members

| Member | Endpoint | Sends | Returns | Phase | Refused |
|---|---|---|---|---|---|
"""

LEFT = """
## Operations without a member

`vm.send()` sends them; the functions that make them are in `generated_vmm._generated.operations`.

"""


def members_page(document: Document, head: Path) -> str:
    """The page of the members for the described API, in the order of the description.

    Operations without a member come last.
    """
    left = without_member(document)
    page = head.read_text("utf-8").format(version=document["info"]["version"]) + COLUMNS
    page += "".join(_row(*found) for found in operations_of(document) if found not in left)
    if left:
        page += LEFT + "".join(_line(*found) for found in left)
    return page


def _line(path: str, method: str, operation: Document) -> str:
    return f"- `{method.upper()} {path}` (`{operation['operationId']}`)\n"


def _row(path: str, method: str, operation: Document) -> str:
    cells = (
        "<br>".join(f"`{member}`" for member in _members(operation)),
        f"`{method.upper()} {path}`",
        _model(body_of(operation)),
        _model(answer_of(operation)),
        operation.get("x-phase", ""),
        "<br>".join(each.removeprefix("400 ") for each in operation.get("x-errors", [])),
    )
    return f"| {' | '.join(cells)} |\n"


def _members(operation: Document) -> Iterator[str]:
    yield str(operation["x-member"])
    if "x-shorthand" in operation:
        yield str(operation["x-shorthand"])


def _model(schema: Document | None) -> str:
    return f"`{_answer(schema).replace('models.', '')}`" if schema is not None else ""
