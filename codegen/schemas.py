"""The schemas of a description, reduced to facts: types, bounds, enums and references."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from codegen.document import TARGET, TEACH, Document, Node

PROSE = ("description", "title", "example", "examples", "externalDocs", "xml")
TYPES = ("string", "integer", "number", "boolean", "array", "object")
BOUNDS = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
LIMITS = {
    "string": {"minLength", "maxLength", "pattern", "enum"},
    "integer": {"minimum", "maximum", "enum"},
    "number": {"minimum", "maximum"},
    "array": {"minItems", "maxItems", "uniqueItems"},
}
FLAGS = ("readOnly", "deprecated", "nullable", "uniqueItems")
OTHER = ("type", "format", "pattern", "enum", "default", "required")
NESTED = ("properties", "items", "additionalProperties", "allOf", "anyOf", "oneOf", "$ref")

FIELD = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
LOCATIONS = ("#/definitions/", TARGET)


def facts_of_schema(node: Node, known: Mapping[str, Node]) -> Document:
    """The schema without prose, in the terms of OpenAPI 3.0.

    `known` holds the names a reference may have. Raises `Unusable` for a keyword outside the tables
    above, a dangling reference, or a combination the generated models could not express.
    """
    members = node.only(*PROSE, *BOUNDS, *FLAGS, *OTHER, *NESTED)
    facts: Document = {}
    if "allOf" in members and (several := _facts_of_several(members, known)):
        return several
    for combination in ("allOf", "anyOf", "oneOf"):
        if combination in members:
            facts |= _facts_of_combination(members[combination], known)
    if "$ref" in members:
        facts |= _reference(members["$ref"], known)
    facts |= _type_of(members)
    facts |= {key: _bound(key, members, facts) for key in BOUNDS if key in members}
    facts |= {key: members[key].flag() for key in FLAGS if key in members}
    facts |= {key: members[key].printable() for key in ("format", "pattern") if key in members}
    if "enum" in members:
        facts["enum"] = _enum(members["enum"], facts.get("type"))
    if "default" in members:
        facts["default"] = members["default"].json()
    facts |= _facts_of_object(node, members, known)
    if "items" in members:
        facts["items"] = _facts_of_element(members["items"], known)
    _require_type(node, facts)
    _require_suiting_limits(node, facts)
    _require_room(node, facts)
    return facts["allOf"][0] if list(facts) == ["allOf"] else facts


def _reference(node: Node, known: Mapping[str, Node]) -> Document:
    """The reference, at OpenAPI 3's location; siblings of a `$ref` count only through allOf."""
    for location in LOCATIONS:
        if node.text().startswith(location) and node.text().removeprefix(location) in known:
            name = node.text().removeprefix(location)
            if known[name].is_array():  # no model has this name
                return facts_of_schema(known[name], without(known, name))
            return {"allOf": [{"$ref": TARGET + name}]}
    node.refuse(f"'{node.text()}' refers to no schema of this description")


def _facts_of_combination(node: Node, known: Mapping[str, Node]) -> Document:
    """A combination that only means "this schema" or "this schema or null"."""
    choices = [choice for choice in node.elements() if choice.value != {"type": "null"}]
    if len(choices) != 1:
        node.refuse("a combination of several schemas cannot be generated", TEACH)
    nullable = len(choices) < len(node.elements())
    facts = facts_of_schema(choices[0], known)
    facts = {"allOf": [facts]} if "$ref" in facts else facts
    return facts | ({"nullable": True} if nullable else {})


def _facts_of_several(members: dict[str, Node], known: Mapping[str, Node]) -> Document:
    """One object with the members of all parts of an `allOf`; empty if it has one part."""
    parts = [part for part in members["allOf"].elements() if set(part.members()) - set(PROSE)]
    own = {name: members[name].value for name in ("properties", "required") if name in members}
    if "properties" in own:
        parts.append(Node({"type": "object"} | own, members["allOf"].place))
    if len(parts) < 2:
        return {}
    merged: Document = {"type": "object", "properties": {}}
    required: list[str] = []
    for part in parts:
        facts = _facts_of_part(part, known)
        required += [name for name in facts.get("required", []) if name not in required]
        for name, described in facts["properties"].items():
            if merged["properties"].setdefault(name, described) != described:
                part.refuse(f"'{name}' is described in two ways")
    return merged | ({"required": required} if required else {})


def _facts_of_part(part: Node, known: Mapping[str, Node]) -> Document:
    facts = facts_of_schema(part, known)
    if "$ref" in facts:
        name = facts["$ref"].removeprefix(TARGET)
        facts = facts_of_schema(known[name], without(known, name))
    if set(facts) - {"required"} != {"type", "properties"}:
        part.refuse("only objects with described members can be combined", TEACH)
    return facts


def without(known: Mapping[str, Node], name: str) -> Mapping[str, Node]:
    """The other schemas, so that references cannot form a circle."""
    return {other: node for other, node in known.items() if other != name}


def _type_of(members: dict[str, Node]) -> Document:
    """The type; OpenAPI 3.1 writes a nullable one as a list with "null"."""
    if "type" not in members:
        return {}
    node = members["type"]
    names = node.value if isinstance(node.value, list) else [node.value]
    types = [name for name in names if name != "null"]
    if len(types) != 1 or types[0] not in TYPES:
        node.refuse(f"type {node.value!r} cannot be generated", TEACH)
    return {"type": types[0]} | ({"nullable": True} if len(types) < len(names) else {})


def _require_type(node: Node, facts: Document) -> None:
    """Refuses values of any type, and arrays of them: a typed client cannot have them."""
    if "type" not in facts and "allOf" not in facts:
        node.refuse("neither 'type' nor '$ref'")
    if facts.get("type") == "array" and "items" not in facts:
        node.refuse("an array without 'items'")


def _facts_of_element(node: Node, known: Mapping[str, Node]) -> Document:
    """The schema of the elements of an array or a map, whose limits the generator would lose."""
    facts = facts_of_schema(node, known)
    for lost in (*BOUNDS, "pattern", "nullable", "uniqueItems"):
        if lost in facts:
            node.refuse(f"'{lost}' of an element cannot be generated", TEACH)
    return facts


def _require_suiting_limits(node: Node, facts: Document) -> None:
    """Refuses a limit that does not suit its type; a reference can have none."""
    for limit in (*BOUNDS, "pattern", "enum", "uniqueItems"):
        if limit in facts and limit not in LIMITS.get(facts.get("type", ""), ()):
            node.refuse(f"'{limit}' does not suit the type")
    if "allOf" in facts and "type" in facts:
        node.refuse("a reference and a type of its own")


def _bound(key: str, members: dict[str, Node], facts: Document) -> int | float:
    """A bound; for whole numbers, the equivalent whole number."""
    node = members[key]
    value = node.value
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        node.refuse(f"expected a finite number, found {value!r:.60}")
    if key not in ("minimum", "maximum"):
        if value < 0 or value != int(value):
            node.refuse(f"expected a length, found {value!r:.60}")
        return int(value)
    if facts.get("type") == "integer":
        return math.ceil(value) if key == "minimum" else math.floor(value)
    return value


def _require_room(node: Node, facts: Document) -> None:
    """Refuses bounds that leave no value."""
    for low, high in (BOUNDS[:2], BOUNDS[2:4], BOUNDS[4:]):
        if low in facts and high in facts and facts[low] > facts[high]:
            node.refuse(f"no value lies between '{low}' and '{high}'")


def _enum(node: Node, kind: object) -> list[str] | list[int]:
    values: Any = [
        value.whole() if kind == "integer" else value.printable() for value in node.elements()
    ]
    if not values or len(set(values)) < len(values):
        node.refuse("an enum needs values, each once")
    found: list[str] | list[int] = values
    return found


def _facts_of_object(node: Node, members: dict[str, Node], known: Mapping[str, Node]) -> Document:
    """The members of an object: described one by one, or a free-form map, not both."""
    facts: Document = {}
    if "required" in members:
        facts["required"] = [name.text() for name in members["required"].elements()]
    if "properties" in members:
        described = members["properties"].members()
        for name in repeated(described):
            described[name].refuse("another member would get the same name in Python")
        facts["properties"] = {
            property_node.named(FIELD, name): facts_of_schema(property_node, known)
            for name, property_node in described.items()
        }
    if "additionalProperties" in members:
        rest = members["additionalProperties"]
        if isinstance(rest.value, bool) or rest.value == {}:
            facts["additionalProperties"] = rest.value is not False
        else:
            facts["additionalProperties"] = _facts_of_element(rest, known)
    if facts.get("properties") and facts.get("additionalProperties"):
        node.refuse("described properties beside additionalProperties cannot be generated", TEACH)
    for name in facts.get("required", []):
        if name not in facts.get("properties", {}):
            members["required"].refuse(f"'{name}' is required but not described")
    return facts


def repeated(names: Iterable[str]) -> list[str]:
    """The names that equal an earlier one but for case and characters not in Python's names."""
    seen: set[str] = set()
    found = []
    for name in names:
        if plain(name) in seen:
            found.append(name)
        seen.add(plain(name))
    return found


def plain(name: str) -> str:
    """The name without case and without characters that Python's names cannot have."""
    return name.replace("-", "").replace("_", "").lower()
