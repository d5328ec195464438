"""What the caller of another name, of another option, or with another kind of value is told."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar


class Told:
    """Base of classes that say which of their members does what another library's does."""

    __slots__ = ()
    _elsewhere: ClassVar[Mapping[str, str]] = {}
    """Names of other libraries, several in a text, and what does the same; `{}` is the name."""

    if not TYPE_CHECKING:  # type checkers know the members

        def __getattr__(self, name):
            """Raises AttributeError, with the call that does what `name` does elsewhere."""
            if hasattr(type(self), name):  # a property has raised it, and says of what
                return object.__getattribute__(self, name)
            message = f"{type(self).__name__} has no member {name!r}{_hint(self, name)}"
            raise AttributeError(message, name=name, obj=self)

        def __getitem__(self, key):
            """Raises TypeError, also for `for` and `in`, with the call that returns items."""
            raise TypeError(f"{type(self).__name__} has no items by index{_hint(self, '[]')}")


def _hint(told: Told, name: str) -> str:
    found = (call for names, call in told._elsewhere.items() if name in names.split())
    return "".join(f": {call.replace('{}', name)}" for call in found)


def require_kind(option: str, value: object, needed: str, *kinds: type) -> None:
    """Raises ValueError for a value of another kind, other than None."""
    if value is not None and not isinstance(value, kinds):
        raise ValueError(f"{option} is {value!r}; it must be {needed}")


def require_list(option: str, value: object, needed: str) -> None:
    """Raises TypeError for one text or path, whose letters are no list of them."""
    if isinstance(value, str | bytes | os.PathLike):
        raise TypeError(f"{option} is {needed}: {option}=[{value!r}]")


def require_replaced(name: str, path: object) -> None:
    """Raises ValueError for a path with the ~ of a home, which only shells replace."""
    if isinstance(path, str) and path.startswith("~") and "/" in path:
        raise ValueError(f"{name} is {path!r}, and nothing replaces the ~: os.path.expanduser does")


def require_opened(file: object, call: str, mode: str) -> None:
    """Raises TypeError for a path, and for a file that was opened for text."""
    if not hasattr(file, call) or hasattr(file, "encoding"):
        raise TypeError(f"file is {file!r}; it must be opened for bytes: open(path, {mode!r})")


def require_options(given: Iterable[str], known: Iterable[str], more: str = "") -> None:
    """Raises TypeError for options that are not known; the error names those that are."""
    if unknown := sorted(set(given) - set(known)):
        raise TypeError(f"there are no options {unknown}; there are {', '.join(known)}{more}")
