"""Whether somebody has changed a machine between the look at a form and its sending."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import replace

from examples.console.changes import Change
from examples.console.events import person
from examples.console.machine import Machine
from examples.console.monitors import Monitor
from generated_vmm import VmmError


def fingerprint(change: Change, machine: Machine, item: str) -> str:
    """What the monitor has of all that the form changes, in a few letters."""
    has = [
        section.values(machine, {}, item)
        for section in change.sections
        if section.current(machine, item) is not None
    ]
    return hashlib.sha256(json.dumps(has).encode()).hexdigest()[:16]


async def with_metadata(monitor: Monitor, machine: Machine, tab: str) -> Machine:
    """The machine with its document, if that is what the tab is about and can be read."""
    if tab == "metadata":
        with suppress(VmmError):
            return replace(machine, metadata=await monitor.metadata())
    return machine


async def changed_meanwhile(monitor: Monitor, change: Change, item: str, seen: str) -> str:
    """Who has changed what the form was made of, as a sentence; empty when nobody has."""
    try:
        machine = await with_metadata(monitor, await monitor.look(), change.tab)
    except VmmError:
        return ""  # the change itself will tell
    if fingerprint(change, machine, item) == seen:
        return ""
    return f"{_who(monitor)} meanwhile. What you typed is still here: save again to replace it."


def _who(monitor: Monitor) -> str:
    """Who made the last change through this console, and it was one."""
    last = next((event.by for event in monitor.events.latest(20) if not event.refused), None)
    if last == person():
        return "You have changed this elsewhere"
    return f"{last.name if last and last.name else 'Somebody'} has changed this"
