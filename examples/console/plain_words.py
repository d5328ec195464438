"""What a refusal means, in a sentence for people; the monitor's own words stay beside it."""

from __future__ import annotations

from dataclasses import dataclass

from examples.console.words import REFUSALS


@dataclass(frozen=True, slots=True)
class Told:
    """Why something was not done: a plain sentence, and the monitor's words if it has said any."""

    sentence: str
    words: str = ""


def in_plain_words(words: str) -> Told:
    """What the monitor said, with a sentence before it."""
    said = words.lower()
    known = (sentence for part, sentence in REFUSALS.items() if part in said)
    return Told(next(known, "The monitor refused this."), words)
