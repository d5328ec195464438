"""Detects changes of a machine between showing a page and pressing its button."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Self

from examples.console.changes import Change
from examples.console.events import person
from examples.console.machine import NO_ANSWER, Machine
from examples.console.monitors import Monitor
from examples.console.records import Event

NOTHING_SHOWN: Final = ""


@dataclass(frozen=True, slots=True)
class PageState:
    """The state of a machine that a page shows, which its forms carry.

    `run` differs for each monitor of a machine. `values` is a digest of the monitor's values that
    the form can change.
    """

    state: str
    run: str
    at: float
    values: str = ""

    def __str__(self) -> str:
        return "|".join([self.state, self.run, f"{self.at:.3f}", self.values])

    @classmethod
    def parse(cls, text: str) -> Self:
        """The state that a form has sent; an impossible one if this console did not make it."""
        state, run, at, values = [*text.split("|"), "", "", "", ""][:4]
        try:
            return cls(state, run, float(at), values)
        except ValueError:
            return cls(NOTHING_SHOWN, "", 0.0)

    @property
    def shown_at(self) -> datetime:
        """When the page was created."""
        try:
            return datetime.fromtimestamp(self.at, UTC)
        except (ValueError, OverflowError, OSError):
            return datetime.fromtimestamp(0, UTC)


def fingerprint(change: Change, machine: Machine, item: str) -> str:
    """A short digest of the monitor's values that the form can change."""
    has = [
        section.values(machine.definition, {}, item)
        for section in change.sections
        if section.found(machine.definition, item) is not None
    ]
    return hashlib.sha256(json.dumps(has).encode()).hexdigest()[:16]


def changed_meanwhile(
    monitor: Monitor, change: Change, item: str, machine: Machine, page: PageState
) -> str:
    """Who has changed the state that the page showed, what and when; empty if it is unchanged.

    `machine` is as it is now.
    """
    state = machine.state
    # A monitor that stops or resumes responding is not changed by a user.
    is_silent = NO_ANSWER in (state, page.state)
    if monitor.run != page.run or (state != page.state and not is_silent):
        return _of_state(monitor, state, page)
    if is_silent or not page.values or fingerprint(change, machine, item) == page.values:
        return ""
    who = _who(monitor.events.last_done(), "has changed this")
    return f"{who} What you typed is still here: save again to replace it."


def _of_state(monitor: Monitor, state: str, page: PageState) -> str:
    if page.state == NOTHING_SHOWN:
        return f"Nothing was done: no page asked for it. {monitor.name} is {state}."
    if state == page.state:
        changed = f"{monitor.name} has been started anew since this page was made."
    else:
        changed = f"{monitor.name} was {page.state} on this page and is {state} now."
    last = monitor.events.last_done(page.shown_at)
    who = _who(last, "did it") if last else "Nobody did it through this console."
    return f"Nothing was done: {changed} {who} Press again if you still want to."


def _who(last: Event | None, did: str) -> str:
    """A sentence on the last change through this console."""
    if last is None:
        return f"Somebody {did} meanwhile."
    if last.by == person():
        name = f"You {did.replace('has', 'have')} elsewhere"
    else:
        name = f"{last.by.name or 'Somebody'} {did}"
    return f"{name} at {last.at:%H:%M:%S} UTC: {last.what}"
