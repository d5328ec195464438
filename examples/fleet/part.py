"""What the fleet is made of, as somebody at the prompt sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

Actions: TypeAlias = Mapping[str, Callable[[], None]]


class StartError(Exception):
    """A part of the fleet cannot be started; the message says which and why."""


class Part(Protocol):
    """One part; `actions` are what can be done with it, by the word for it."""

    @property
    def name(self) -> str:
        """What it is called at the prompt."""

    @property
    def actions(self) -> Actions:
        """Each action returns when it is done; starting raises StartError."""

    @property
    def state(self) -> str:
        """A word or two on what it does now."""


class Together:
    """Several parts under one name: what is done is done with each, in their order."""

    def __init__(self, name: str, parts: Sequence[Part]) -> None:
        self.name, self._parts = name, parts

    @property
    def state(self) -> str:
        """What each of them does now."""
        return ", ".join(f"{part.name} {part.state}" for part in self._parts)

    @property
    def actions(self) -> Actions:
        """What all of them can do; a restart stops all of them before one is started."""
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
