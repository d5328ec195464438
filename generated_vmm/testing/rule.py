"""The registry of rules: each is tied to its operations and to the fields that it uses.

A rule is a function whose parameters are names of fields of the operation's body, besides
`machine` and `call`. If a description lacks one of these fields, the rule does not apply; a
parameter with a default may be missing. A null field counts as missing for a parameter whose
annotation has no `None`.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from generated_vmm.testing.description import Json, Operation
from generated_vmm.testing.machine import Machine, Members

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass
class Call:
    """One request that reached its operation, with its body checked against the description."""

    operation: Operation
    resource: str
    id: str
    body: Members
    content: Json = None
    """The body of an operation that takes any JSON."""


Rule: TypeAlias = Callable[[Machine, Call], Json]
Rules: TypeAlias = dict[str, list[Rule]]

EARLY_CHECKS: Final[Rules] = defaultdict(list)
"""Checks of a body beyond its description, before the check of the phase, by endpoint."""
CHECKS: Final[Rules] = defaultdict(list)
"""Conditions before a call is carried out, in order; they may complete the body."""
ACTIONS: Final[Rules] = defaultdict(list)
"""Actions where the monitor does not simply store and show as described."""
OTHERWISE: Final = object()
"""The result of a rule that does not apply."""


def early_check(*endpoints: str) -> Callable[[Function], Function]:
    """Declare a check of a body, before the check of the phase."""
    return _declare(EARLY_CHECKS, endpoints)


def check(*endpoints: str) -> Callable[[Function], Function]:
    """Declare a condition of operations such as `PUT /balloon`; it raises `Fault`."""
    return _declare(CHECKS, endpoints)


def action(*endpoints: str) -> Callable[[Function], Function]:
    """Declare what an operation does and returns."""
    return _declare(ACTIONS, endpoints)


def _declare(rules: Rules, endpoints: tuple[str, ...]) -> Callable[[Function], Function]:
    def declare(function: Function) -> Function:
        for endpoint in endpoints:
            rules[endpoint].append(_rule(function))
        return function

    return declare


def _rule(function: Callable[..., Any]) -> Rule:
    takes = inspect.signature(function).parameters
    needs = {name for name in takes if takes[name].default is inspect.Parameter.empty}
    nullable = {name for name in takes if "None" in str(takes[name].annotation)}

    def run(machine: Machine, call: Call) -> Any:
        known = {"machine": machine, "call": call, **call.body}
        absent = {name for name in known if known[name] is None} - nullable
        given = {name: known[name] for name in takes if name in known and name not in absent}
        return function(**given) if needs <= given.keys() else OTHERWISE

    return run
