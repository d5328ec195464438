"""How a state rule is tied to its operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from generated_vmm.testing.description import Json, Operation
from generated_vmm.testing.machine import Machine, Members


@dataclass(frozen=True)
class Call:
    """One request that reached its operation, with its body checked against the description."""

    operation: Operation
    resource_id: str
    body: Members
    content: Json = None
    """The body of an operation that takes any JSON."""


Rule: TypeAlias = Callable[[Machine, Call], Json]

RULES: Final[dict[str, Rule]] = {}
"""The hand-written rules by method and path."""


def rule(endpoint: str) -> Callable[[Rule], Rule]:
    """Declare the state rule of an operation, such as `PUT /balloon`."""

    def declare(function: Rule) -> Rule:
        RULES[endpoint] = function
        return function

    return declare
