"""Start, pause, resume, the keys that ask the guest to shut down, and the monitor's process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from examples.console.changes.change import (
    AFTER_START,
    BEFORE_START,
    WHILE_PAUSED,
    WHILE_RUNNING,
    Act,
    Change,
    Parsed,
)
from examples.console.hosted import HostedMonitor
from examples.console.machine import ENDED, NO_ANSWER
from examples.console.monitors import Monitor


def hosted(act: Callable[[HostedMonitor, Parsed], Awaitable[object]]) -> Act:
    """`act` for a machine of this console; ValueError for the monitor of somebody else."""

    async def act_if_hosted(monitor: Monitor, parsed: Parsed) -> None:
        if not isinstance(monitor, HostedMonitor):
            raise ValueError("This console did not start this monitor.")
        await act(monitor, parsed)

    return act_if_hosted


POWER_CHANGES = (
    Change(
        name="start",
        tab="overview",
        button="Start",
        working="Starting…",
        done="The machine is running.",
        verb="start a machine",
        when=BEFORE_START,
        act=lambda monitor, parsed: monitor.control.action("InstanceStart"),
    ),
    Change(
        name="pause",
        tab="overview",
        button="Pause",
        working="Pausing…",
        done="The machine is paused.",
        verb="pause a machine",
        when=WHILE_RUNNING,
        act=lambda monitor, parsed: monitor.control.pause(),
    ),
    Change(
        name="resume",
        tab="overview",
        button="Resume",
        working="Resuming…",
        done="The machine is running again.",
        verb="resume a machine",
        when=WHILE_PAUSED,
        act=lambda monitor, parsed: monitor.control.resume(),
    ),
    Change(
        name="ctrl_alt_del",
        tab="overview",
        button="Ctrl+Alt+Del",
        working="Sending…",
        done="The guest was sent Ctrl+Alt+Del. When it shuts down, its monitor ends.",
        verb="shut a machine down",
        when=WHILE_RUNNING,
        confirm="Send Ctrl+Alt+Del? Most guests shut down.",
        act=lambda monitor, parsed: monitor.control.action("SendCtrlAltDel"),
    ),
    Change(
        name="stop",
        tab="overview",
        button="Stop",
        working="Stopping…",
        done="The machine has ended.",
        verb="stop a machine",
        when=AFTER_START | {NO_ANSWER},
        confirm="Stop it? A guest that does not shut down in a few seconds is ended.",
        act=hosted(lambda monitor, parsed: monitor.end()),
        hosted=True,
        at_once=True,
    ),
    Change(
        name="restart",
        tab="overview",
        button="Start again",
        working="Starting…",
        done="The machine is there again.",
        verb="start a machine",
        when=frozenset({ENDED}),
        act=hosted(lambda monitor, parsed: monitor.begin()),
        hosted=True,
    ),
    Change(
        name="edit",
        tab="overview",
        button="Edit",
        working="Opening…",
        done="Everything can be changed now. Start the machine when you are done.",
        verb="change machines",
        when=frozenset({ENDED}),
        act=hosted(lambda monitor, parsed: monitor.begin(boot=False)),
        hosted=True,
    ),
    Change(
        name="delete",
        tab="overview",
        button="Delete",
        working="Deleting…",
        done="The machine is deleted.",
        verb="delete machines",
        when=BEFORE_START | {ENDED},
        confirm="Delete it? Its disk images and snapshots stay where they are.",
        act=hosted(lambda monitor, parsed: monitor.delete()),
        hosted=True,
    ),
)
