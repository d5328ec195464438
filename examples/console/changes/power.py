"""Start, pause, resume, the guest's shutdown, and the monitor's process."""

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
from examples.console.events import person
from examples.console.hosted import HostedMonitor
from examples.console.machine import ENDED, NO_ANSWER
from examples.console.monitors import Monitor


def hosted(act: Callable[[HostedMonitor, Parsed], Awaitable[object]]) -> Act:
    """`act` for a machine of this console; raises ValueError for other monitors."""

    async def act_if_hosted(monitor: Monitor, parsed: Parsed) -> None:
        if not isinstance(monitor, HostedMonitor):
            raise ValueError("This console did not start this monitor.")
        await act(monitor, parsed)

    return act_if_hosted


async def _start(monitor: Monitor, parsed: Parsed) -> None:
    if isinstance(monitor, HostedMonitor):
        await monitor.machine.start(by=person().name)
    else:
        await monitor.control.action("InstanceStart")


async def _pause(monitor: Monitor, parsed: Parsed) -> None:
    if isinstance(monitor, HostedMonitor):
        await monitor.machine.pause(by=person().name)
    else:
        await monitor.control.pause()


async def _resume(monitor: Monitor, parsed: Parsed) -> None:
    if isinstance(monitor, HostedMonitor):
        await monitor.machine.resume(by=person().name)
    else:
        await monitor.control.resume()


POWER_CHANGES = (
    Change(name="start", right="operate", when=BEFORE_START, act=_start),
    Change(name="pause", right="operate", when=WHILE_RUNNING, act=_pause),
    Change(name="resume", right="operate", when=WHILE_PAUSED, act=_resume),
    Change(
        name="ctrl_alt_del",
        right="operate",
        when=WHILE_RUNNING,
        act=lambda monitor, parsed: monitor.control.action("SendCtrlAltDel"),
    ),
    Change(
        name="stop",
        right="operate",
        when=AFTER_START | {NO_ANSWER},
        act=hosted(lambda monitor, parsed: monitor.end()),
        hosted=True,
        at_once=True,
    ),
    Change(
        name="restart",
        right="operate",
        when=frozenset({ENDED}),
        act=hosted(lambda monitor, parsed: monitor.begin()),
        hosted=True,
    ),
    Change(
        name="edit",
        when=frozenset({ENDED}),
        act=hosted(lambda monitor, parsed: monitor.begin(boot=False)),
        hosted=True,
    ),
    Change(
        name="delete",
        when=BEFORE_START | {ENDED},
        act=hosted(lambda monitor, parsed: monitor.delete()),
        hosted=True,
    ),
)
