"""Our own texts for a description: the subset of OpenAPI Overlay 1.0 that this project uses.

A target is `$` followed by `.name` and `['name']` steps and so names one place at most.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from pathlib import Path

from codegen.document import Document, Node, Unusable, located, read_yaml

STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\['([^']+)'\]")
TARGET = re.compile(r"\$(?:\.[A-Za-z_][A-Za-z0-9_]*|\['[^']+'\])*")


@dataclass(frozen=True, slots=True)
class Action:
    """One entry of an overlay; `since` is the first version it is about (our `x-since`)."""

    target: str
    update: Document | None
    since: str


def read_overlay(path: Path) -> list[Action]:
    """The actions of an overlay file. Raises `Unusable` for constructs outside this subset."""
    with located(path):
        members = read_yaml(path).only("overlay", "info", "actions")
        if members["overlay"].text() != "1.0.0":
            members["overlay"].refuse("only Overlay 1.0.0 is known")
        return [_action(node) for node in members["actions"].elements()]


def apply_overlay(document: Document, actions: list[Action]) -> list[str]:
    """Apply the actions to the document in order; the notes name those that match nothing."""
    version = document["info"]["version"]
    later = later_than(version, actions)
    notes = [
        f"overlay: {action.target} is for {action.since} and later"
        for action in later
        if not _below(action, later)
    ]
    for action in actions:
        if action not in later and not _apply(document, action) and not _below(action, later):
            notes.append(f"overlay: {action.target} matches nothing in {version}")
    return notes


def _below(action: Action, others: list[Action]) -> bool:
    return any(
        action is not other and action.target.startswith(f"{other.target}.") for other in others
    )


def later_than(version: str, actions: list[Action]) -> list[Action]:
    """The actions for parts that only later versions have."""
    return [action for action in actions if is_older(version, action.since)]


FIELD = re.compile(r"\$\.components\.schemas\.(\w+)\.properties(?:\.(\w+)|\['([^']+)'\])")


def field_of(action: Action) -> tuple[str, str] | None:
    """The schema and field of an action; None if it is about something else."""
    found = FIELD.fullmatch(action.target)
    return (found[1], found[2] or found[3]) if found else None


def is_older(version: str, than: str) -> bool:
    """Whether one version comes before another; a suffix such as `-dev` is ignored."""
    return _numbers(version) < _numbers(than)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.partition("-")[0].split(".")]


def _action(node: Node) -> Action:
    members = node.only("target", "description", "update", "remove", "x-since")
    target = members["target"]
    if not TARGET.fullmatch(target.text()):
        target.refuse(f"target {target.text()!r} is outside the subset of JSONPath that is known")
    if "remove" in members and members["remove"].flag():
        return Action(target.text(), None, "0")
    if "update" not in members:
        node.refuse("an action needs 'update' or 'remove: true'")
    members["update"].members()
    update = copy.deepcopy(members["update"].value)
    assert isinstance(update, dict)
    since = members["x-since"].text() if "x-since" in members else "0"
    return Action(target.text(), update, since)


def _apply(document: Document, action: Action) -> bool:
    steps = [dotted or quoted for dotted, quoted in STEP.findall(action.target)]
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
