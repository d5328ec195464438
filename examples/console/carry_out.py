"""Carrying out a change, unless it is not as its page showed it: all input is checked before."""

from __future__ import annotations

import hashlib
import json
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Self

from examples.console.account import User
from examples.console.changes import Change
from examples.console.changes.change import Parsed
from examples.console.events import Done, person, recorded
from examples.console.failures import CONFLICT, Failure, failed, invalid
from examples.console.forms import Fields, Texts
from examples.console.hosted import HostedMonitor
from examples.console.monitors import NO_ANSWER, Machine, Monitor
from examples.console.records import Event

RESUMING: Final = ("resume", "named_snapshot", "clone")
"""Changes after which the guest's agent sets the clock."""


async def carry_out(
    monitor: Monitor, change: Change, form: Texts, user: User, page: PageState | None = None
) -> Failure | None:
    """Do what the form says for a user and record it; None if all of it was done.

    Nothing is done if the user may not do it, if the machine is no longer as `page` showed it,
    cannot be changed so, is busy, or if what is wanted cannot be recorded.
    """

    async def act() -> Done:
        async with nullcontext() if change.at_once else monitor.turn:
            machine = await monitor.look()
            require_possible(monitor, change, form, page, machine)
            await change.do(monitor, parse(change, form))
        detail = differences(change, machine, form)
        if change.name in RESUMING and isinstance(monitor, HostedMonitor):
            detail = monitor.agent_error or detail
        item = change.item_of(form)
        return Done(f"{change.done.removesuffix('.')}: {item}." if item else change.done, detail)

    names = monitor.name, form.get(change.leads_on, "").strip() or monitor.name
    if not all(user.may(change.right, name) for name in names):
        await monitor.events.add(f"Tried to {change.verb}.", change.not_yours)
        return Failure(403, change.not_yours)
    if (operation := monitor.operation) is not None:
        return Failure(CONFLICT, f"{monitor.name} is busy: {operation.in_words}.")
    return await recorded(monitor.events, change.verb, act)


def require_possible(
    monitor: Monitor, change: Change, form: Texts, page: PageState | None, machine: Machine
) -> None:
    """Raises Failure if another user was faster, or the machine does not support the change."""
    if not change.is_for(monitor):
        raise Failure(CONFLICT, "This console did not start this monitor.")
    if machine.fault is not None and change.not_now(NO_ANSWER):
        raise failed(machine.fault)
    item = change.item_of(form)
    if page and (why := changed_meanwhile(monitor, change, item, machine, page)):
        raise Failure(CONFLICT, why)
    if why := change.why_not(machine):
        raise Failure(CONFLICT, why)
    if change.items is not None and item not in change.items(machine):
        raise Failure(CONFLICT, "There is no such device.")


def differences(change: Change, machine: Machine, form: Texts) -> str:
    """The old and new values of a form, a line each, without documents, which may have secrets."""
    lines = []
    for section in change.sections:
        item = change.item_of(form)
        is_new = section.found(machine.definition, item) is None
        before = {} if is_new else section.values(machine.definition, {}, item)
        for one in section.fields:
            name = f"{section.key}.{one.name}"
            old, new = before.get(name, ""), form.get(name, "").strip()
            if one.kind not in ("document", "item") and old != new:
                lines.append(f"{one.label}: {old or 'nothing'} → {new or 'nothing'}")
    return "\n".join(lines)


def parse(change: Change, form: Texts) -> Parsed:
    """The input by section, without empty ones. Raises Failure."""
    parsed: dict[str, Fields] = {}
    faults: dict[str, str] = {}
    for section in change.sections:
        try:
            fields = section.parse(form)
            parsed |= {} if fields is None else {section.key: fields}
        except Failure as failure:
            faults |= failure.fields
    if faults:
        raise invalid(faults)
    return parsed


@dataclass(frozen=True, slots=True)
class PageState:
    """The state of a machine that a page shows since `at`, which its forms carry.

    `run` differs for each monitor of a machine. `values` is a digest of the monitor's values that
    the form can change.
    """

    state: str
    run: str
    values: str = ""
    at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __str__(self) -> str:
        return "|".join([self.state, self.run, self.at.isoformat(), self.values])

    @classmethod
    def parse(cls, text: str) -> Self:
        """The state that a form has sent; an impossible one if this console did not make it."""
        state, run, at, values = [*text.split("|"), "", "", "", ""][:4]
        try:
            return cls(state, run, values, datetime.fromisoformat(at).astimezone(UTC))
        except (ValueError, OverflowError):
            return cls("", "")


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
    if not page.state:
        return f"Nothing was done: no page asked for it. {monitor.name} is {state}."
    if state == page.state:
        changed = f"{monitor.name} has been started anew since this page was made."
    else:
        changed = f"{monitor.name} was {page.state} on this page and is {state} now."
    last = monitor.events.last_done(page.at)
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
