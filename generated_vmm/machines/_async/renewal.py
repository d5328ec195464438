"""What the agent in a guest does for its machine; nothing if the machine says that it has none.

A guest stands still while its memory is written, so its copies stand still too, until each has an
identity of its own.
"""

from __future__ import annotations

from contextlib import suppress

from generated_vmm.guest import GuestError
from generated_vmm.machines._async.monitors import AsyncMonitors
from generated_vmm.machines.records import MachineRecord


async def hold(monitors: AsyncMonitors, record: MachineRecord) -> None:
    """Makes everything but the agent stand still. Raises `GuestError`."""
    if record.definition.agent is not None:
        async with monitors.guest(record) as guest:
            await guest.hold()


async def go_on(monitors: AsyncMonitors, record: MachineRecord) -> None:
    """Sets the clock of a guest that was paused, and lets it run. Raises `GuestError`."""
    if record.definition.agent is not None:
        async with monitors.guest(record) as guest:
            if (await guest.info()).isolated:
                await guest.set_clock()
            await guest.release()


async def go_on_if_it_can(monitors: AsyncMonitors, record: MachineRecord) -> None:
    """The same after a failure: a guest whose agent fails runs again by itself after a minute."""
    with suppress(GuestError):
        await go_on(monitors, record)


async def renew(monitors: AsyncMonitors, record: MachineRecord) -> None:
    """Gives a copy an identity of its own, and lets it run then.

    Raises `GuestError`, also if anything has run before, and OSError of the guest.
    """
    if record.definition.agent is not None:
        async with monitors.guest(record) as guest:
            if (await guest.wait_until_ready(guest.timeout)).isolated:
                await guest.renew_identity(hostname=record.name, release=True)
