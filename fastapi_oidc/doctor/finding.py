"""The findings of the doctor."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. `topic` is one or two words; `text` never contains a secret."""

    verdict: Verdict
    topic: str
    text: str


def ok(topic: str, text: str) -> Finding:
    """A check that succeeded."""
    return Finding(Verdict.OK, topic, text)


def note(topic: str, text: str) -> Finding:
    """A value that only the operator can compare; it was not checked."""
    return Finding(Verdict.NOTE, topic, text)


def warning(topic: str, text: str) -> Finding:
    """Something may not work, or the provider does not say clearly whether it does."""
    return Finding(Verdict.WARNING, topic, text)


def fault(topic: str, text: str) -> Finding:
    """Logins do not work."""
    return Finding(Verdict.FAULT, topic, text)
