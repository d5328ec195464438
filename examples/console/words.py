"""The texts of panels, changes, refusals and settings, from `words.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_TEXTS: Final = tomllib.loads(Path(__file__).with_name("words.toml").read_text())
HINTS: Final[Mapping[str, str]] = _TEXTS["hints"]
RENEWED: Final[Sequence[str]] = _TEXTS["clone"]["renewed"]
SHARED: Final[Sequence[str]] = _TEXTS["clone"]["shared"]
FIGURES: Final[Mapping[str, Mapping[str, Sequence[str]]]] = _TEXTS["figures"]
TIMES: Final[Mapping[str, int]] = _TEXTS["times"]
TABS: Final[Mapping[str, str]] = _TEXTS["tabs"]
WHO: Final[Mapping[str, str]] = _TEXTS["who"]
SIGN_INS: Final[Mapping[str, str]] = _TEXTS["sign_ins"]
ENDED: Final[Mapping[str, str]] = _TEXTS["ended"]
VARIABLES: Final[Mapping[str, str]] = _TEXTS["variables"]
_TEXTS["change"] |= {
    f"{kind}{step}": {member: text.format(noun=noun) for member, text in texts.items()}
    for kind, noun in _TEXTS["nouns"].items()
    for step, texts in _TEXTS["device"].items()
}


def words_of(kind: str, name: str) -> Mapping[str, str]:
    """The texts of a `panel` or a `change` by their members; none if it has its own."""
    found: Mapping[str, str] = _TEXTS[kind].get(name, {})
    return found
