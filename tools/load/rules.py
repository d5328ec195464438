"""What must hold whatever happens, and what was seen to break it."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from enum import StrEnum
from typing import Final

EXAMPLES: Final = 20
"""As many breaches are told in full; all are counted."""


class Rule(StrEnum):
    """An invariant of the fleet."""

    ONE_TOKEN_CALL = "one token call per expiry"  # noqa: S105 - a sentence
    OWN_SESSION = "no answer under another session's identity"
    FRESH_TOKEN = "no answer with an access token that is over"  # noqa: S105
    ENDED_IS_REFUSED = "an ended session is refused with its next request"
    LIVE_IS_SERVED = "who signs in or is signed in is not refused"
    NO_CAUSELESS_FAILURE = "no 5xx that has no cause in the plan"
    FLAT_MEMORY = "the memory of a worker stays flat"


class Verdict:
    """The breaches so far."""

    def __init__(self) -> None:
        self.breaches: Counter[Rule] = Counter()
        self.examples: list[str] = []

    def broken(self, rule: Rule, what: str) -> None:
        """Something broke a rule just now; `what` says how, with no secret in it."""
        self.breaches[rule] += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(f"{datetime.now():%H:%M:%S}  {rule}: {what}")

    @property
    def holds(self) -> bool:
        """Whether no rule was broken."""
        return not self.breaches
