"""One line of what the doctor found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Finding:
    """`topic` is one or two words; `text` never holds a secret."""

    verdict: Verdict
    topic: str
    text: str


def ok(topic: str, text: str) -> Finding:
    """All is well."""
    return Finding(Verdict.OK, topic, text)


def warning(topic: str, text: str) -> Finding:
    """Logins work; something else may not."""
    return Finding(Verdict.WARNING, topic, text)


def fault(topic: str, text: str) -> Finding:
    """No login will succeed, or every user will be refused something."""
    return Finding(Verdict.FAULT, topic, text)
