"""Reading a foreign description: every step down is checked and knows its place."""

from __future__ import annotations

import copy
import functools
import io
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    Event,
    NodeEvent,
    ScalarEvent,
)
from ruamel.yaml.nodes import MappingNode, SequenceNode
from ruamel.yaml.nodes import Node as YamlNode

# A description that was imported: plain JSON values whose shape `import_spec` has checked.
Document: TypeAlias = dict[str, Any]

JSON = "application/json"
TARGET = "#/components/schemas/"
METHODS = ("get", "put", "delete", "patch")  # all that an `Operation` can be


# Remedies for a refusal.
CORRECT = "correct the description"
TEACH = "leave it out of a copy of the description, or teach codegen to generate it"


class Unusable(Exception):
    """An unusable input; the message is one line: place, reason, and remedy.

    `place` is a JSON pointer until the file and the line are known; see `located`.
    """

    def __init__(self, reason: str, place: str = "", remedy: str = "") -> None:
        self.reason, self.place, self.remedy = reason, place, remedy
        message = f"{place}: {reason}" if place else reason
        super().__init__(f"{message}; {remedy}" if remedy else message)


@contextmanager
def located(path: Path) -> Iterator[None]:
    """Adds file and line to the `Unusable` errors of this block."""
    try:
        yield
    except Unusable as error:
        if not error.place.startswith("#"):
            raise
        place = f"{path}:{_line_of(error.place, path)}: {error.place}"
        raise Unusable(error.reason, place, error.remedy) from error


def _line_of(place: str, path: Path) -> int:
    """The line of a JSON pointer's target, or of the last step that the file has."""
    node = YAML(typ="safe", pure=True).compose(path.read_bytes())
    line = 1
    for step in place.replace(TARGET, "#/definitions/").split("/")[1:]:
        found = _child(node, step) or (step == "definitions" and _schemas_of_openapi(node))
        if not found:
            break
        line, node = found
    return line


def _schemas_of_openapi(node: YamlNode) -> tuple[int, YamlNode] | None:
    components = _child(node, "components")
    return components and _child(components[1], "schemas")


def _child(node: YamlNode, step: str) -> tuple[int, YamlNode] | None:
    """Line and value of a member or an element."""
    name = step.replace("~1", "/").replace("~0", "~")
    if isinstance(node, MappingNode):
        for key, value in node.value:
            if str(key.value) == name:
                return key.start_mark.line + 1, value
    if isinstance(node, SequenceNode) and name.isdecimal() and int(name) < len(node.value):
        element = node.value[int(name)]
        return element.start_mark.line + 1, element
    return None


@dataclass(frozen=True, slots=True)
class Node:
    """A value of an untrusted document together with its JSON pointer."""

    value: object
    place: str = "#"

    def refuse(self, reason: str, remedy: str = CORRECT) -> NoReturn:
        """Raise `Unusable` with this place, the reason and the remedy."""
        raise Unusable(reason, self.place, remedy)

    def members(self) -> dict[str, Node]:
        """The members of an object; keys are text, as YAML reads `200:` as a number."""
        if not isinstance(self.value, Mapping):
            self.refuse(f"expected an object, found {self.value!r:.60}")
        members = {str(key): self.step(str(key), value) for key, value in self.value.items()}
        if len(members) < len(self.value):
            self.refuse("a key occurs twice, as a number and as text")
        return members

    def only(self, *known: str) -> dict[str, Node]:
        """The members of an object that may only have the known ones."""
        members = self.members()
        for key, member in members.items():
            if key not in known:
                member.refuse(f"'{key}' is not a construct this importer knows", TEACH)
        return members

    def elements(self) -> list[Node]:
        """The elements of an array."""
        if not isinstance(self.value, list):
            self.refuse(f"expected an array, found {self.value!r:.60}")
        return [self.step(str(index), value) for index, value in enumerate(self.value)]

    def is_array(self) -> bool:
        """Whether this is the schema of an array."""
        return isinstance(self.value, Mapping) and self.value.get("type") == "array"

    def text(self) -> str:
        """The value of a string that is not empty."""
        if not isinstance(self.value, str) or not self.value:
            self.refuse(f"expected text, found {self.value!r:.60}")
        return self.value

    def printable(self) -> str:
        """The value of a string that is copied into generated code."""
        text = self.text()
        if not text.isprintable():
            self.refuse(f"{text!r:.60} has unprintable characters")
        return text

    def json(self) -> object:
        """The value, if JSON has its type: YAML also has dates, sets, bytes and others."""
        if isinstance(self.value, dict):
            return {key: member.json() for key, member in self.members().items()}
        if isinstance(self.value, list):
            return [element.json() for element in self.elements()]
        if isinstance(self.value, float) and not math.isfinite(self.value):
            self.refuse(f"{self.value} is no value of JSON")
        if self.value is not None and not isinstance(self.value, str | int | float):
            self.refuse(f"{self.value!r:.60} is no value of JSON")
        return self.value

    def whole(self) -> int:
        """The value of a whole number."""
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            self.refuse(f"expected a whole number, found {self.value!r:.60}")
        return self.value

    def flag(self) -> bool:
        """The value of a boolean."""
        if not isinstance(self.value, bool):
            self.refuse(f"expected true or false, found {self.value!r:.60}")
        return self.value

    def named(self, names: re.Pattern[str], name: str) -> str:
        """The name of this node, if generated code can use it."""
        if not names.fullmatch(name):
            self.refuse(f"{name!r} cannot become a name in Python")
        return name

    def step(self, key: str, value: object) -> Node:
        """The node one level down."""
        return Node(value, f"{self.place}/{key.replace('~', '~0').replace('/', '~1')}")


def read_yaml(path: Path) -> Node:
    """The content of a YAML 1.2 or JSON file (in YAML 1.1 the log level `Off` would be false).

    Raises `Unusable` if the file cannot be read, exceeds a limit or contains no object.
    """
    try:
        with path.open("rb") as file:
            value = copy.deepcopy(_loaded(file.read(LARGEST + 1)))
    except OSError as error:
        raise Unusable(f"{path}: {error.strerror}; name a file that can be read") from error
    except TooMuch as error:
        raise Unusable(f"{path}: {error}; {CORRECT}") from error
    except (YAMLError, UnicodeDecodeError, ValueError) as error:
        raise Unusable(f"{path}: not YAML: {' '.join(str(error).split())}; {CORRECT}") from error
    if not isinstance(value, Mapping):
        raise Unusable(f"{path}: no description: the file contains no object; {CORRECT}")
    return Node(value)


@functools.lru_cache(maxsize=16)  # a run reads the same files several times
def _loaded(content: bytes) -> object:
    require_limits(content)
    value: object = YAML(typ="safe", pure=True).load(content)
    return value


def write_yaml(document: Document) -> str:
    """The document as YAML, in its own order."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # declared as None
    yaml.width = 120
    text = io.StringIO()
    yaml.dump(document, text)
    return text.getvalue()


def schemas_of(document: Document) -> Document:
    """The named schemas, to read and to change."""
    schemas: Document = document["components"]["schemas"]
    return schemas


def operations_of(document: Document) -> Iterator[tuple[str, str, Document]]:
    """Path, method and content of every operation."""
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield path, method, item[method]


def base_path(document: Document) -> str:
    """The prefix of every path, usually empty."""
    return str(document.get("servers", [{"url": ""}])[0]["url"])


def parameters_in(location: str, operation: Document) -> list[str]:
    """The names of an operation's parameters in the path or in the query."""
    found = operation.get("parameters", [])
    return [parameter["name"] for parameter in found if parameter["in"] == location]


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


def is_free_form(schema: Document) -> bool:
    """Whether an object has members of any name."""
    return not schema.get("properties") and schema.get("additionalProperties") is not False


def body_of(operation: Document) -> Document | None:
    """The schema of the request body, to read and to change."""
    content = operation.get("requestBody", {}).get("content", {})
    schema: Document | None = content.get(JSON, {}).get("schema")
    return schema


def answer_of(operation: Document) -> Document | None:
    """The schema of a successful response, to read and to change."""
    for status, response in operation["responses"].items():
        if status.startswith("2"):
            schema: Document | None = response.get("content", {}).get(JSON, {}).get("schema")
            return schema
    return None


LARGEST = 2**20  # bytes; a release's description has 60 thousand
MOST_VALUES = 50_000  # values of aliases included; a description has 4 thousand
DEEPEST = 50  # levels; a description has 12


class TooMuch(ValueError):
    """A file over one of the limits."""


def require_limits(content: bytes) -> None:
    """Raises `TooMuch` for content over a limit, `YAMLError` for content that is not YAML."""
    if len(content) > LARGEST:
        raise TooMuch(f"larger than {LARGEST} bytes")
    count = _Count()
    for event in YAML(typ="safe", pure=True).parse(content):
        count.take(event)


class _Count:
    """The number of values so far, and that below each anchor."""

    def __init__(self) -> None:
        self.values = 0
        self.open: list[int] = []  # the count at the start of each open collection
        self.names: list[str | None] = []
        self.anchored: dict[str | None, int] = {}

    def take(self, event: Event) -> None:
        if isinstance(event, AliasEvent):
            self._add(self._size_of(event.anchor))
        elif isinstance(event, ScalarEvent):
            self._require_new(event.anchor)
            self._add(1)
            self.anchored[event.anchor] = 1
        elif isinstance(event, CollectionStartEvent):
            self._begin(event)
        elif isinstance(event, CollectionEndEvent):
            self.anchored[self.names.pop()] = self.values - self.open.pop()

    def _begin(self, event: NodeEvent) -> None:
        self._require_new(event.anchor)
        self.open.append(self.values)
        self.names.append(event.anchor)
        self._add(1)
        if len(self.open) > DEEPEST:
            raise TooMuch(f"nested deeper than {DEEPEST} levels")

    def _require_new(self, anchor: str | None) -> None:
        """Refuses it, although YAML allows it (1.2.2, 3.2.2.2): the alias would be ambiguous."""
        if anchor is not None and (anchor in self.anchored or anchor in self.names):
            raise TooMuch(f"the anchor &{anchor} occurs twice")

    def _size_of(self, anchor: str) -> int:
        if anchor in self.names:
            raise TooMuch(f"the alias *{anchor} contains itself")
        return self.anchored.get(anchor, 1)

    def _add(self, values: int) -> None:
        self.values += values
        if self.values > MOST_VALUES:
            raise TooMuch(f"more than {MOST_VALUES} values, those of aliases included")
