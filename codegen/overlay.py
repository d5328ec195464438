"""Our own texts for a description: the subset of OpenAPI Overlay 1.0 that this project uses.

A target is `$` followed by `.name` and `['name']` steps and so names one place at most.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from codegen.document import Document, Node, Unusable, located, read_yaml
from codegen.releases import is_older

STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\['([^']+)'\]")
TARGET = re.compile(r"\$(?:\.[A-Za-z_][A-Za-z0-9_]*|\['[^']+'\])*")


@dataclass(frozen=True, slots=True)
class Action:
    """One entry of an overlay.

    `since` is the first version that an entry is about which no description shows (our `x-since`).
    """

    target: str
    update: Document | None
    since: str = "0"

    @property
    def place(self) -> str:
        """The name of the target: `PUT /pmem/{id}`, `Pmem`, `Pmem.id`; empty for anything else."""
        match _steps(self.target):
            case ["paths", path, method]:
                return f"{method.upper()} {path}"
            case ["components", "schemas", name]:
                return name
            case ["components", "schemas", name, "properties", field]:
                return f"{name}.{field}"
        return ""


def read_overlay(path: Path) -> list[Action]:
    """The actions of an overlay file. Raises `Unusable` for constructs outside this subset."""
    with located(path):
        members = read_yaml(path).only("overlay", "info", "actions")
        if members["overlay"].text() != "1.0.0":
            members["overlay"].refuse("only Overlay 1.0.0 is known")
        return [_action(node) for node in members["actions"].elements()]


def apply_overlay(
    document: Document, actions: list[Action], lacked: Mapping[str, str] | None = None
) -> list[str]:
    """Apply the actions to the document in order; the notes name those that match nothing.

    `lacked` is what this version is too old for, with the releases that have it.
    """
    version, lacked = document["info"]["version"], lacked or {}
    later = {
        id(action): lacked.get(action.place, action.since)
        for action in actions
        if action.place in lacked or is_older(version, action.since)
    }
    targets = tuple(f"{action.target}." for action in actions if id(action) in later)
    notes = []
    for action in actions:
        since = later.get(id(action))
        if since is None and _apply(document, action):
            continue
        if not action.target.startswith(targets):
            what = f"is for {since} and later" if since else f"matches nothing in {version}"
            notes.append(f"overlay: {action.target} {what}")
    return notes


def _action(node: Node) -> Action:
    members = node.only("target", "description", "update", "remove", "x-since")
    target = members["target"]
    if not TARGET.fullmatch(target.text()):
        target.refuse(f"target {target.text()!r} is outside the subset of JSONPath that is known")
    if "remove" in members and members["remove"].flag():
        return Action(target.text(), None)
    if "update" not in members:
        node.refuse("an action needs 'update' or 'remove: true'")
    members["update"].members()
    update = copy.deepcopy(members["update"].value)
    assert isinstance(update, dict)
    since = members["x-since"].text() if "x-since" in members else "0"
    return Action(target.text(), update, since)


def _steps(target: str) -> list[str]:
    return [dotted or quoted for dotted, quoted in STEP.findall(target)]


def _apply(document: Document, action: Action) -> bool:
    steps = _steps(action.target)
    parent: object = None
    found: object = document
    for step in steps:
        if not isinstance(found, dict) or step not in found:
            return False
        parent, found = found, found[step]
    if action.update is None and isinstance(parent, dict):
        del parent[steps[-1]]
    elif action.update is None or not isinstance(found, dict):
        raise Unusable(f"overlay: {action.target}: the target has to be an object")
    else:
        _merge(found, action.update)
    return True


def _merge(into: Document, update: Document) -> None:
    """Objects are merged, arrays appended to, everything else replaced (Overlay 1.0, 4.4.3)."""
    for key, value in update.items():
        current = into.get(key)
        if isinstance(current, dict) and isinstance(value, dict):
            _merge(current, value)
        elif isinstance(current, list) and isinstance(value, list):
            current.extend(copy.deepcopy(value))
        else:
            into[key] = copy.deepcopy(value)
