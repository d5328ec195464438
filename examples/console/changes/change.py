"""What a change is: one button with its form."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from examples.console.forms import Section
from examples.console.hosted import ENDED, STARTING
from examples.console.monitors import Monitor

BEFORE_START: Final = frozenset({"Not started"})
AFTER_START: Final = frozenset({"Running", "Paused"})
ANY_TIME: Final = BEFORE_START | AFTER_START


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing an admin can do to a machine, in the states in `when`.

    The sections are sent in order, then `act` is done. `confirm` is asked before, `working` stands
    on the button meanwhile, `done` is told afterwards. `verb` completes "Only an admin may …".
    A `hosted` change is one of machines whose monitor this console starts.
    """

    name: str
    tab: str
    button: str
    working: str
    done: str
    verb: str
    when: frozenset[str]
    sections: tuple[Section, ...] = ()
    confirm: str = ""
    act: Callable[[Monitor], Awaitable[object]] | None = None
    hosted: bool = False

    def not_now(self, state: str) -> str:
        """Why this cannot be done in `state`; empty when it can."""
        if state in self.when:
            return ""
        if state in (ENDED, STARTING):
            return "The machine has ended." if state == ENDED else "The monitor is starting."
        if self.when == {"Paused"}:
            return "Pause the machine first." if state == "Running" else "Start the machine first."
        return (
            "Start the machine first."
            if state == "Not started"
            else "Only possible before the start."
        )
