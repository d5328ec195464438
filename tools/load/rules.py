"""What must hold whatever happens, what was seen to break it, and what a fault explains."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

EXAMPLES: Final = 20
"""As many breaches are told in full; all are counted."""


class Rule(StrEnum):
    """An invariant of the fleet."""

    ONE_TOKEN_CALL = "one token call for each expiry"  # noqa: S105 - a sentence
    OWN_SESSION = "no response carries the identity of another session"
    FRESH_TOKEN = "no response carries an expired access token"  # noqa: S105
    ENDED_IS_REFUSED = "an ended session is refused at its next request"
    LIVE_IS_SERVED = "no login and no live session is refused"
    NO_CAUSELESS_FAILURE = "every 5xx has a cause in the plan of faults"
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


NO_ANSWER: Final = 0
"""In the place of a status, when the connection failed or broke off."""


@dataclass(frozen=True, slots=True)
class Span:
    """From the moment a request was sent to the moment its answer was there, in seconds."""

    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class Cause:
    """What a fault may cost those who are served while it lasts, and `aftermath` seconds longer.

    `statuses` are failures that it explains. One that `loses_answers` of the provider may cost a
    session whose refresh is under way, or a login, since codes and refresh tokens are good once.
    While one that `loses_endings` lasts a sign-out may end nothing.
    """

    name: str
    statuses: frozenset[int]
    aftermath: float
    loses_answers: bool = False
    loses_endings: bool = False


@dataclass(slots=True)
class _Lasting:
    cause: Cause
    began: float
    ended: float | None = None

    def meets(self, span: Span) -> bool:
        return self.began <= span.ended and (self.ended is None or span.began <= self.ended)


@dataclass(slots=True)
class Causes:
    """The faults that there were, each with its time; `explained` counts what they excused."""

    now: Callable[[], float] = time.monotonic
    explained: Counter[tuple[str, int]] = field(default_factory=Counter)
    _lasting: list[_Lasting] = field(default_factory=list)

    @contextmanager
    def under(self, cause: Cause) -> Iterator[None]:
        """The fault lasts as long as the block."""
        lasting = _Lasting(cause, self.now())
        self._lasting.append(lasting)
        try:
            yield
        finally:
            lasting.ended = self.now() + cause.aftermath

    def explain(self, status: int, span: Span) -> bool:
        """Whether a fault explains such a failure; it is counted under each that does."""
        causes = [cause for cause in self._meeting(span) if status in cause.statuses]
        for cause in causes:
            self.explained[cause.name, status] += 1
        return bool(causes)

    def lose_answers(self, span: Span) -> bool:
        """Whether what the provider returned may have been lost."""
        return any(cause.loses_answers for cause in self._meeting(span))

    def lose_endings(self, span: Span) -> bool:
        """Whether a sign-out may have ended nothing."""
        return any(cause.loses_endings for cause in self._meeting(span))

    def _meeting(self, span: Span) -> list[Cause]:
        return [lasting.cause for lasting in self._lasting if lasting.meets(span)]
