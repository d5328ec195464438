"""The described schemas as JSON Schema, and JSON values that suit them or miss them narrowly."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from codegen.document import Document, answer_of, body_of, operations_of, references_in
from generated_vmm._generated import models
from generated_vmm.input_types import MOST_MIB
from generated_vmm.model import ApiDocument, ApiModel
from tests.vmm.described import DOCUMENT
from tests.vmm.described import SCHEMAS as DESCRIBED

if TYPE_CHECKING:
    import jsonschema

# Bounded in number, not in time: a busy machine is no fault of a model.
FEW = settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
MANY = settings(FEW, max_examples=25)
TEXT = st.text(max_size=8)
ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


def _bounded(schemas: Document) -> Document:
    """The described schemas with a rule of the client's own: no more MiB than any host has."""
    made = copy.deepcopy(schemas)
    for schema in made.values():
        for field, member in schema.get("properties", {}).items():
            if field.endswith("_mib"):
                member.setdefault("maximum", MOST_MIB)
    return made


SCHEMAS = _bounded(DESCRIBED)


def model_named(name: str) -> type[ApiModel | ApiDocument[Any]]:
    model: type[ApiModel | ApiDocument[Any]] = getattr(models, name)
    return model


def _reachable(names: set[str]) -> list[str]:
    waiting, found = list(names), set(names)
    while waiting:
        inner = set(references_in(SCHEMAS[waiting.pop()])) - found
        found |= inner
        waiting += inner
    return sorted(name for name in found if SCHEMAS[name]["type"] == "object")


SENT = _reachable({n for _, _, op in operations_of(DOCUMENT) for n in references_in(body_of(op))})
ANSWERED = _reachable(
    {n for _, _, op in operations_of(DOCUMENT) for n in references_in(answer_of(op))}
)


def resolved(schema: Document) -> Document:
    """The schema itself, or the one it refers to."""
    if "$ref" in schema or "allOf" in schema:
        found: Document = SCHEMAS[next(references_in(schema))]
        return found
    return schema


def least(name: str) -> dict[str, Any]:
    """The smallest value that is described."""
    schema = SCHEMAS[name]
    return _samples(schema, schema.get("required", []))


def _samples(schema: Document, members: Iterable[str]) -> dict[str, Any]:
    made = {member: _sample(schema["properties"][member]) for member in members}
    return made | {member: member for member in schema.get("x-two-files", [])}


def _sample(schema: Document) -> Any:
    schema = resolved(schema)
    if "enum" in schema:
        return schema["enum"][0]
    if "required" in schema:
        return _samples(schema, schema["required"])
    number = max(7, schema.get("minimum", 7))
    samples = {"string": "a", "boolean": True, "array": [], "object": {}}
    return samples.get(schema["type"], min(number, schema.get("maximum", number)))


@functools.cache
def validator(name: str) -> jsonschema.Draft4Validator:
    """A validator of what may be sent; OpenAPI 3.0 counts numbers as draft 4 does.

    Three rules of this API are added: a member that is not required may be null, which is the same
    as absent, an object has no members but those described, and `x-two-files` are two.
    """
    import jsonschema  # takes seconds, also where no test of models runs

    def two_files(_: object, files: list[str], value: Any, __: object) -> Iterator[Exception]:
        if isinstance(value, dict) and not are_two(value, files):
            yield jsonschema.ValidationError("one file")

    definitions = {found: _json_schema(schema) for found, schema in SCHEMAS.items()}
    extend: Callable[..., type[jsonschema.Draft4Validator]] = jsonschema.validators.extend
    kind = extend(jsonschema.Draft4Validator, {"x-two-files": two_files})
    return kind({"$ref": f"#/definitions/{name}", "definitions": definitions})


def are_two(value: Mapping[str, Any], files: Sequence[str]) -> bool:
    """Whether these members differ."""
    named = [value[each] for each in files if each in value]
    return all(each not in named[:at] for at, each in enumerate(named))


def _json_schema(schema: Document) -> Document:
    if "allOf" in schema or "$ref" in schema:
        return {"$ref": f"#/definitions/{next(references_in(schema))}"}
    made = {key: value for key, value in schema.items() if key != "description"}
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            made[inner] = _json_schema(schema[inner])
    if "properties" in schema:
        required = schema.get("required", [])
        made["additionalProperties"] = False
        made["properties"] = {
            name: _json_schema(member) if name in required else _or_null(_json_schema(member))
            for name, member in schema["properties"].items()
        }
    return made


def _or_null(schema: Document) -> Document:
    return {"anyOf": [schema, {"type": "null"}]}


def valid(name: str) -> SearchStrategy[Any]:
    """Values that the named schema describes."""
    return _suiting(SCHEMAS[name])


def _suiting(schema: Document) -> SearchStrategy[Any]:
    schema = resolved(schema)
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema["type"]:
        case "string" if "pattern" in schema:
            # Python's `$` lets a newline follow, the monitor's own dialect does not.
            return st.from_regex(schema["pattern"].rstrip("$") + r"\Z", fullmatch=True)
        case "string":
            return TEXT
        case "integer":
            return st.integers(schema.get("minimum"), schema.get("maximum"))
        case "number":
            bounds = schema.get("minimum"), schema.get("maximum")
            return st.floats(*bounds, allow_nan=False, allow_infinity=False)
        case "boolean":
            return st.booleans()
        case "array":
            return st.lists(_suiting(schema["items"]), max_size=2)
    return _object(schema)


def _object(schema: Document) -> SearchStrategy[Any]:
    if "properties" not in schema:
        values = schema.get("additionalProperties")
        held = _suiting(values) if isinstance(values, dict) else ANY_JSON
        return st.dictionaries(TEXT, held, max_size=0 if values is False else 3)
    required = schema.get("required", [])
    members = schema["properties"].items()
    return st.fixed_dictionaries(
        {name: _suiting(member) for name, member in members if name in required},
        optional={
            name: st.none() | _suiting(member) for name, member in members if name not in required
        },
    ).filter(lambda made: are_two(made, schema.get("x-two-files", [])))


@st.composite
def nearly_valid(draw: st.DrawFn, name: str) -> Any:
    """A described value with one thing replaced, added or taken away, anywhere in it."""
    return _spoil(draw, draw(valid(name)))


def _spoil(draw: st.DrawFn, value: Any) -> Any:
    if isinstance(value, list) and value and draw(st.booleans()):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], _spoil(draw, value[at]), *value[at + 1 :]]
    if isinstance(value, dict) and draw(st.booleans() | st.just(True)):
        return _spoil_object(draw, value)
    return draw(ANY_JSON)


def _spoil_object(draw: st.DrawFn, value: dict[str, Any]) -> dict[str, Any]:
    key = draw(st.sampled_from(sorted(value)) | TEXT if value else TEXT)
    match draw(st.sampled_from(["spoil", "replace", "remove"])):
        case "remove":
            return {name: member for name, member in value.items() if name != key}
        case "spoil" if key in value:
            return value | {key: _spoil(draw, value[key])}
    return value | {key: draw(ANY_JSON)}
