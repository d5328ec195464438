"""Carrying out a change: all input is checked before anything is done."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Final

from examples.console.changes import Change
from examples.console.changes.change import Parsed
from examples.console.events import Done, recorded
from examples.console.failures import CONFLICT, Failure, failed, invalid
from examples.console.fields import Fields, Texts
from examples.console.hosted import HostedMonitor
from examples.console.machine import NO_ANSWER, Machine
from examples.console.meanwhile import PageState, changed_meanwhile
from examples.console.monitors import Monitor

RESUMING: Final = ("resume", "named_snapshot", "clone")
"""Changes after which the guest's agent sets the clock."""


async def carry_out(
    monitor: Monitor, change: Change, form: Texts, page: PageState | None = None
) -> Failure | None:
    """Do what the form says and record it; None if all of it was done.

    Nothing is done if the machine is no longer as `page` showed it, cannot be changed so, is busy,
    or if what is wanted cannot be recorded.
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
