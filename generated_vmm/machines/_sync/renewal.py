# Derived from `generated_vmm/machines/_async/renewal.py` by `make codegen`. Do not edit.
"""What the agent in a guest does for its machine; nothing if the machine says that it has none.

A guest stands still while its memory is written, so its copies stand still too, until each has an
identity of its own.
"""

from __future__ import annotations

from contextlib import suppress

from generated_vmm.guest import GuestError
from generated_vmm.machines._sync.monitors import Monitors
from generated_vmm.machines.records import MachineRecord


def hold(monitors: Monitors, record: MachineRecord) -> None:
    """Makes everything but the agent stand still. Raises `GuestError`."""
    if record.definition.agent is not None:
        with monitors.guest(record) as guest:
            guest.hold()


def go_on(monitors: Monitors, record: MachineRecord) -> None:
    """Sets the clock of a guest that was paused, and lets it run. Raises `GuestError`."""
    if record.definition.agent is not None:
        with monitors.guest(record) as guest:
            if (guest.info()).isolated:
                guest.set_clock()
            guest.release()


def go_on_if_it_can(monitors: Monitors, record: MachineRecord) -> None:
    """The same after a failure: a guest whose agent fails runs again by itself after a minute."""
    with suppress(GuestError):
        go_on(monitors, record)


def renew(monitors: Monitors, record: MachineRecord) -> None:
    """Gives a copy an identity of its own, and lets it run then.

    Raises `GuestError`, also if anything has run before, and OSError of the guest.
    """
    if record.definition.agent is not None:
        with monitors.guest(record) as guest:
            if (guest.wait_until_ready(guest.timeout)).isolated:
                guest.renew_identity(hostname=record.name, release=True)
