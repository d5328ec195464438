"""How large a file may be, and what it holds: read event by event, before anything is built of it.

An alias costs a few letters and stands for as much as its anchor, other aliases included.
"""

from __future__ import annotations

from ruamel.yaml import YAML
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    Event,
    NodeEvent,
    ScalarEvent,
)

LARGEST = 2**20  # bytes; a release's description has 60 thousand
MOST_VALUES = 50_000  # with those that aliases stand for; a description has 4 thousand
DEEPEST = 50  # levels; a description has 12


class TooMuch(ValueError):
    """A file over one of the limits."""


def require_limits(content: bytes) -> None:
    """Raises `TooMuch` for content over a limit, `YAMLError` for what is no YAML."""
    if len(content) > LARGEST:
        raise TooMuch(f"larger than {LARGEST} bytes")
    count = _Count()
    for event in YAML(typ="safe", pure=True).parse(content):
        count.take(event)


class _Count:
    """The number of values so far, and that below each anchor."""

    def __init__(self) -> None:
        self.values = 0
        self.open: list[
            int
        ] = []  # the count at the start of each collection that is not at its end
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
        """YAML allows it (1.2.2, 3.2.2.2); what an alias means would depend on where it stands."""
        if anchor is not None and (anchor in self.anchored or anchor in self.names):
            raise TooMuch(f"the anchor &{anchor} is there twice")

    def _size_of(self, anchor: str) -> int:
        if anchor in self.names:
            raise TooMuch(f"the alias *{anchor} contains itself")
        return self.anchored.get(anchor, 1)

    def _add(self, values: int) -> None:
        self.values += values
        if self.values > MOST_VALUES:
            raise TooMuch(f"more than {MOST_VALUES} values, those of aliases included")
