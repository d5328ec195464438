"""The parts of the fleet, as the prompt shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

Actions: TypeAlias = Mapping[str, Callable[[], None]]


class StartError(Exception):
    """A part of the fleet cannot be started; the message names it and the reason."""


class Part(Protocol):
    """One part; `actions` are its functions by the words of the prompt."""

    @property
    def name(self) -> str:
        """Its name at the prompt."""

    @property
    def actions(self) -> Actions:
        """Each action returns when it is complete; starting raises StartError."""

    @property
    def state(self) -> str:
        """Its state in a word or two."""


class Together:
    """Several parts under one name: each action is applied to all, in order."""

    def __init__(self, name: str, parts: Sequence[Part]) -> None:
        self.name, self._parts = name, parts

    @property
    def state(self) -> str:
        """The state of each of them."""
        return ", ".join(f"{part.name} {part.state}" for part in self._parts)

    @property
    def actions(self) -> Actions:
        """The actions that all of them have; a restart stops all before it starts one."""
        common = set.intersection(*(set(part.actions) for part in self._parts))
        each = {verb: self._each(verb) for verb in sorted(common)}
        return {**each, "restart": self._restart}

    def _each(self, verb: str) -> Callable[[], None]:
        def act() -> None:
            for part in self._parts:
                part.actions[verb]()

        return act

    def _restart(self) -> None:
        self._each("stop")()
        self._each("start")()
