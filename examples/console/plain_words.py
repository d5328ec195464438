"""Refusals of the monitor in plain sentences, beside the monitor's own text."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ValidationError

from examples.console.words import REFUSALS


@dataclass(frozen=True, slots=True)
class Told:
    """Why a change was not made: a plain sentence, and the monitor's text if there is one."""

    sentence: str
    words: str = ""


def as_sentence(error: Exception) -> str:
    """The text of an error of this host, as a sentence."""
    text = str(error).removesuffix(".")
    if isinstance(error, ValidationError):
        text = error.errors()[0]["msg"].removeprefix("Value error, ")
    if isinstance(error, OSError) and error.strerror:
        text = ": ".join(filter(None, (str(error.filename or ""), error.strerror)))
    begins_lower = text.startswith(
        ("name ", "there is ", "a name ", "the ", "a ", "an ", "choose ", "type ")
    )
    return f"{text[:1].upper() if begins_lower else text[:1]}{text[1:]}."


def in_plain_words(words: str) -> Told:
    """The monitor's text, with a plain sentence."""
    said = words.lower()
    known = (sentence for part, sentence in REFUSALS.items() if part in said)
    return Told(next(known, "The monitor refused this."), words)
