"""How a guest wants its text to look: ECMA-48 8.3.117, Select Graphic Rendition, as CSS classes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Self

GREY: Final = 8
"""Of the colours 0 to 7 the bright ones are the same here; bright black is grey."""
_LONGEST: Final = 64
"""Parameters of one sequence that are read."""
_FLAGS: Final = {1: "bold", 2: "faint", 3: "italic", 4: "underline", 7: "inverse", 9: "strike"}
_UNSET: Final = {
    22: ("bold", "faint"),
    23: ("italic",),
    24: ("underline",),
    27: ("inverse",),
    29: ("strike",),
}


@dataclass(frozen=True, slots=True)
class Rendition:
    """Colours by their number, None for the page's own, and what else is set."""

    colour: int | None = None
    ground: int | None = None
    flags: frozenset[str] = frozenset()

    @property
    def classes(self) -> str:
        """The CSS classes, empty for plain text."""
        colour = [] if self.colour is None else [f"c{self.colour}"]
        ground = [] if self.ground is None else [f"g{self.ground}"]
        return " ".join([*colour, *ground, *sorted(self.flags)])

    def after(self, parameters: str) -> Self:
        """What holds after the sequence with these parameters; unknown ones change nothing."""
        numbers = parameters.replace(":", ";").split(";")[:_LONGEST]
        codes = iter([int(text) if text.isdecimal() else 0 for text in numbers])
        rendition = self
        for code in codes:
            rendition = rendition._with(code, codes)
        return rendition

    def _with(self, code: int, rest: Iterator[int]) -> Self:
        if code == 0:
            return type(self)()
        if code in _FLAGS:
            return replace(self, flags=self.flags | {_FLAGS[code]})
        if code in _UNSET:
            return replace(self, flags=self.flags.difference(_UNSET[code]))
        if code in (38, 48):
            found = _from_palette(rest)
            return replace(self, colour=found) if code == 38 else replace(self, ground=found)
        return self._with_colour(code)

    def _with_colour(self, code: int) -> Self:
        tens, number = divmod(code, 10)
        bright = {9: True, 10: True}.get(tens, False)
        if tens in (3, 9) and (number < 8 or code == 39):
            return replace(self, colour=None if number == 9 else _basic(number, bright=bright))
        if tens in (4, 10) and (number < 8 or code == 49):
            return replace(self, ground=None if number == 9 else _basic(number, bright=bright))
        return self


def _basic(number: int, *, bright: bool) -> int:
    return GREY if bright and number == 0 else number


def _from_palette(rest: Iterator[int]) -> int | None:
    """The colour nearest to the one of 256, or of red, green and blue, that comes next."""
    kind = next(rest, 0)
    if kind == 5:
        return _of_256(next(rest, 0))
    if kind == 2:
        return _nearest(next(rest, 0), next(rest, 0), next(rest, 0))
    return None


def _of_256(number: int) -> int | None:
    if number < 16:
        return _basic(number % 8, bright=number > 7)
    if number < 232:
        cube = number - 16
        return _nearest(*(51 * part for part in (cube // 36, cube // 6 % 6, cube % 6)))
    return _nearest(*[8 + 10 * (number - 232)] * 3) if number < 256 else None


def _nearest(red: int, green: int, blue: int) -> int:
    """The number whose bits say which of the three are strong."""
    peak = max(red, green, blue)
    if peak < 64:
        return 0
    if peak < 160 and min(red, green, blue) * 2 > peak:
        return GREY
    return sum(1 << bit for bit, part in enumerate((red, green, blue)) if part * 2 > peak)
