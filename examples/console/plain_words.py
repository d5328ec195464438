"""Refusals of the monitor in plain sentences, beside the monitor's own text."""

from __future__ import annotations

from dataclasses import dataclass

from examples.console.words import REFUSALS


@dataclass(frozen=True, slots=True)
class Told:
    """Why a change was not made: a plain sentence, and the monitor's text if there is one."""

    sentence: str
    words: str = ""


def in_plain_words(words: str) -> Told:
    """The monitor's text, with a plain sentence."""
    said = words.lower()
    known = (sentence for part, sentence in REFUSALS.items() if part in said)
    return Told(next(known, "The monitor refused this."), words)
