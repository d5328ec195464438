"""What a process made by fork starts with: no connection and no lock of its parent."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Inherited(Protocol):
    """Something that a child process gets as a copy and must not use as it is."""

    def start_over(self) -> None:
        """Called in the child before anything else, while it has one thread."""


_inherited: WeakSet[Inherited] = WeakSet()


def start_over_in_children(thing: Inherited) -> None:
    """Lets every process that is forked from this one begin with `thing.start_over()`."""
    _inherited.add(thing)


def _start_over() -> None:
    for thing in list(_inherited):
        thing.start_over()


os.register_at_fork(after_in_child=_start_over)
