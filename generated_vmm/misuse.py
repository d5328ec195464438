"""What the caller of another name, of another option, or with another kind of value is told."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

OWN = __name__.partition(".")[0] + ".", "dataclasses", "contextlib"
ALIKE, HOUR, ENDLESS = 0.75, 3600.0, 1e7  # seconds; whoever wants no limit passes more
SHELL = "|", "||", "&&", ">>", "2>&1", "2>"
VALUES_ELSEWHERE = (
    "stopped exited halted terminated shutoff shutdown off dead up on run active suspended "
    "created dir directory"
)
"""Values of other libraries for what has one of another name here, or none."""


Method = TypeVar("Method", bound=Callable[..., Any])


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


class Here:
    """Base of what a call returns without waiting: TypeError if it is awaited."""

    __slots__ = ()

    if not TYPE_CHECKING:  # type checkers report it

        def __await__(self):
            """Raises TypeError."""
            raise TypeError(f"{type(self).__name__} is there at once: omit `await` before its call")


class Records(Here, list[Any]):
    """What is stored, as a list."""


class Word(str):
    """One of some values: a RuntimeWarning for a comparison with another text that means one."""

    _values: tuple[str, ...] = ()

    @classmethod
    def of(cls, values: tuple[Any, ...], value: object) -> Any:
        """The value, which a newer monitor may have chosen from more; only texts are words."""
        if not isinstance(value, str):
            return value
        made = cls(value)
        made._values = tuple(each for each in values if isinstance(each, str))
        return made

    def __eq__(self, other: object) -> bool:
        is_equal = super().__eq__(other)
        if is_equal is False and _means_one(str(other), self._values):
            known = ", ".join(map(repr, self._values))
            warn_caller(f"{str(other)!r} never equals this value, which is one of {known}")
        return is_equal

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


@lru_cache  # a comparison is cheap: lists of many machines make thousands
def _means_one(text: str, values: tuple[str, ...]) -> bool:
    meant = [*VALUES_ELSEWHERE.split(), *(value.casefold() for value in values)]
    return text not in values and bool(get_close_matches(text.casefold(), meant, 1, ALIKE))


class Raw(bytes):
    """What a program wrote: a RuntimeWarning for a comparison with a text, which never equals."""

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            warn_caller(f"{other!r} never equals bytes: compare b{other!r}, or use decode()")
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = bytes.__hash__


class _Method(partial[Any]):
    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            raise TypeError(f"{self.func.__name__} is a method: compare what its call returns")
        return super().__eq__(other)

    __hash__ = partial.__hash__


def compared_after_a_call(method: Method) -> Method:
    """A method that raises TypeError if it is compared with a text, for want of a call."""
    return cast(Method, property(partial(_Method, method), doc=method.__doc__))


def _hint(told: Told, name: str) -> str:
    found = (call for names, call in told._elsewhere.items() if name in names.split())
    return "".join(f": {call.replace('{}', name)}" for call in found)


def require_kind(option: str, value: object, needed: str, *kinds: type) -> None:
    """Raises ValueError for a value of another kind, other than None."""
    if value is not None and not isinstance(value, kinds):
        raise ValueError(f"{option} is {value!r}; it must be {needed}")


def require_bytes(option: str, value: object) -> None:
    """Raises TypeError for a text."""
    if isinstance(value, str):
        raise TypeError(f"{option} is text: pass bytes, b{value!r}")


def tell_delay(option: str, seconds: float | None) -> None:
    """A RuntimeWarning for a delay of a test that seems to be milliseconds: no full minutes."""
    if seconds is not None and 100 <= seconds < ENDLESS and seconds % 60:
        warn_caller(f"{option} is in seconds: {seconds:g} are {seconds / 60:.1f} minutes")


def require_list(option: str, value: object, needed: str) -> None:
    """Raises TypeError for one text or path, whose letters are no list of them."""
    if isinstance(value, str | bytes | os.PathLike):
        raise TypeError(f"{option} is {needed}: {option}=[{value!r}]")


def require_replaced(name: str, path: object) -> None:
    """Raises ValueError for a path with the ~ of a home, which only shells replace."""
    if isinstance(path, str) and path.startswith("~") and "/" in path:
        raise ValueError(f"{name} is {path!r}, and nothing replaces the ~: os.path.expanduser does")


def tell_unit(option: str, seconds: float) -> None:
    """A RuntimeWarning for thousands that are no quarters of an hour: for milliseconds."""
    is_round = seconds % 1000 == 0 and (seconds % (HOUR / 4) or seconds > 24 * HOUR)
    if is_round and HOUR < seconds < ENDLESS:
        warn_caller(f"{option} is in seconds: {seconds:g} are {seconds / HOUR:.1f} hours")


def require_arguments(args: Iterable[Any]) -> list[Any]:
    """A list of them; TypeError for one text, RuntimeWarning for what only shells understand."""
    if isinstance(args, str | bytes):
        raise TypeError(f"args is text: pass a list, or ['sh', '-c', {args!r}]")
    for each in (found := list(args)):
        if each in SHELL or (isinstance(each, str) and each.startswith("~/")):
            script = " ".join(map(str, found))
            warn_caller(
                f"no shell reads {each!r}: it is an argument, unlike in ['sh', '-c', {script!r}]"
            )
    return found


def require_opened(file: object, call: str, mode: str) -> None:
    """Raises TypeError for a path, and for a file that was opened for text."""
    if not hasattr(file, call) or hasattr(file, "encoding"):
        raise TypeError(f"file is {file!r}; it must be opened for bytes: open(path, {mode!r})")


def require_options(given: Iterable[str], known: Iterable[str], more: str = "") -> None:
    """Raises TypeError for options that are not known; the error names those that are."""
    if unknown := sorted(set(given) - set(known)):
        raise TypeError(f"there are no options {unknown}; there are {', '.join(known)}{more}")


def warn_caller(message: str, kind: type[Warning] = RuntimeWarning) -> None:
    """A warning for the line that called this package."""
    levels = 1
    frame = sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(OWN):
        frame = frame.f_back
        levels += 1
    warnings.warn(message, kind, stacklevel=levels)


def warn_of_stopped_loop() -> None:
    """A RuntimeWarning for the line that called a sync client in an async function."""
    warn_caller(
        "this call stops the event loop of its thread until the response comes: "
        "use the async class, or another thread (in FastAPI, a `def` endpoint)"
    )
