"""The client's members as a tree: the overlay's `x-member` of a call is its place below the client.

`balloon.stats.get` is a call two levels down; `(id)` is a parameter of the path: `drive(id).set`.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from codegen.document import Document, Unusable, operations_of
from codegen.unsupported import Lacking

ID = "(id)"
STEP = re.compile(r"[a-z][a-z0-9_]*")
VERBS = {"get": "get", "put": "set", "patch": "update", "delete": "delete"}
REMEDY = "correct its x-member in the overlay"


@dataclass(frozen=True, slots=True)
class Call:
    """One call as a member; without an operation if this release lacks it, with who has it."""

    place: str
    member: str
    operation: Document | None = None
    since: str = ""

    @property
    def name(self) -> str:
        """The name of the method."""
        return self.member.rpartition(".")[2]

    @property
    def ids(self) -> list[str]:
        """The names of the parameters in the path."""
        return re.findall(r"{([^}]+)}", self.place)

    def refused(self, reason: str) -> Unusable:
        """The error for a member that cannot be generated."""
        return Unusable(f"x-member {self.member!r} {reason}", self.place, REMEDY)


@dataclass(slots=True)
class Resource:
    """A part of the client: the calls and the parts below it. `ids` are those that it was given."""

    path: str = ""
    ids: list[str] = field(default_factory=list)
    parts: dict[str, Resource] = field(default_factory=dict)
    calls: dict[str, Call] = field(default_factory=dict)

    def add(self, call: Call) -> None:
        """Add the call at its place; raises `Unusable` for a place that no call can have."""
        *steps, name = call.member.split(".")
        for step in (*(each.removesuffix(ID) for each in steps), name):
            if not STEP.fullmatch(step) or keyword.iskeyword(step):
                raise call.refused(f"has {step!r}, which is no name in lower case")
        if call.member.count(ID) != len(call.ids):
            raise call.refused(f"and the path need the same number of ids: {len(call.ids)}")
        resource = self
        for step in steps:
            resource = resource._part(step, call)
        if name in resource.names():
            raise call.refused("is another member already")
        resource.calls[name] = call

    def names(self) -> set[str]:
        """The names of all members."""
        return {*self.calls, *(step.removesuffix(ID) for step in self.parts)}

    def _part(self, step: str, call: Call) -> Resource:
        if step not in self.parts:
            if step.removesuffix(ID) in self.names():
                raise call.refused(f"has {step!r}, which is another member already")
            path = f"{self.path}.{step}".removeprefix(".")
            ids = call.ids[: len(self.ids) + step.endswith(ID)]
            self.parts[step] = Resource(path, ids)
        return self.parts[step]

    def with_parts(self) -> Iterator[Resource]:
        """This and the parts at any depth, each after those below it."""
        for part in self.parts.values():
            yield from part.with_parts()
        yield self


def members_of(document: Document, lacking: Lacking) -> Resource:
    """All calls that have a member, those included that this release lacks."""
    root = Resource()
    for path, method, operation in operations_of(document):
        if "x-member" in operation:
            root.add(Call(f"{method.upper()} {path}", operation["x-member"], operation))
    for place, (member, since) in lacking.calls.items():
        root.add(Call(place, member, since=since))
    return root


def suggested(document: Document, lacking: Lacking, client: Path) -> dict[str, str]:
    """A place for each call that has none, `parts(id).set` for `PUT /parts/{id}`, by its endpoint.

    Each is free, whatever the members so far and the names of the written client are.
    """
    root, taken = members_of(document, lacking), names_of(client)
    found = {}
    for path, method, operation in operations_of(document):
        if "x-member" not in operation:
            place = f"{method.upper()} {path}"
            found[place] = next(
                member
                for member in _candidates(path, method)
                if _first(member) not in taken and _fits(root, Call(place, member, operation))
            )
    return found


def _fits(root: Resource, call: Call) -> bool:
    try:
        root.add(call)
    except Unusable:
        return False
    return True


def _candidates(path: str, method: str) -> Iterator[str]:
    """Names made of a path: the plain one, and others if it is another member's."""
    steps = re.sub(r"/\{[^}]+\}", ID, path).strip("/").lower().split("/")
    names = [re.sub(r"[^a-z0-9_()]", "_", step) or "instance" for step in steps]
    usable = [each if _is_name(each.removesuffix(ID)) else f"call_{each}" for each in names]
    member = ".".join((*usable, VERBS[method]))
    yield member
    yield f"all_{member}"
    yield from (f"call_{number}_{member}" for number in count(2))


def _is_name(text: str) -> bool:
    return STEP.fullmatch(text) is not None and not keyword.iskeyword(text)


def require_free(root: Resource, client: Path) -> None:
    """Raises `Unusable` for a member that would hide one of the written client."""
    taken = names_of(client)
    for part in root.with_parts():
        for call in part.calls.values():
            if (name := _first(call.member)) in taken:
                raise call.refused(f"begins with {name!r}, which the client has already")


def _first(member: str) -> str:
    return member.partition(".")[0].removesuffix(ID)


def names_of(client: Path) -> set[str]:
    """The names of the methods in a module."""
    tree = ast.parse(client.read_text(encoding="utf-8"))
    return {
        found.name
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        for found in node.body
        if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef)
    }
