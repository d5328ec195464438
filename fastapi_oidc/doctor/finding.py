"""One line of what the doctor found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How bad it is."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Finding:
    """`topic` is one or two words; `text` never holds a secret."""

    verdict: Verdict
    topic: str
    text: str


def ok(topic: str, text: str) -> Finding:
    """It was checked, and all is well."""
    return Finding(Verdict.OK, topic, text)


def note(topic: str, text: str) -> Finding:
    """What only the operator can compare; it was not checked."""
    return Finding(Verdict.NOTE, topic, text)


def warning(topic: str, text: str) -> Finding:
    """Logins work; something else may not."""
    return Finding(Verdict.WARNING, topic, text)


def fault(topic: str, text: str) -> Finding:
    """Something stops the first login."""
    return Finding(Verdict.FAULT, topic, text)
