"""Start, pause, resume, the guest's shutdown, and the monitor's process."""

from __future__ import annotations

from examples.console.changes.change import STOPPED, WHILE_PAUSED, WHILE_RUNNING, Change
from examples.console.events import person
from examples.console.monitors import NO_ANSWER, STARTED, Machine


def _nothing_to_boot(machine: Machine) -> str:
    return "" if machine.definition.can_boot else "The machine has no kernel yet. Save the setup."


POWER_CHANGES = (
    Change(
        name="start",
        right="operate",
        when=STOPPED,
        unless=_nothing_to_boot,
        act=lambda monitor, parsed: monitor.control.action("InstanceStart"),
        of_hosted=lambda monitor, parsed: monitor.start(),
    ),
    Change(
        name="pause",
        right="operate",
        when=WHILE_RUNNING,
        act=lambda monitor, parsed: monitor.control.pause(),
        of_hosted=lambda monitor, parsed: monitor.machine.pause(by=person().name),
    ),
    Change(
        name="resume",
        right="operate",
        when=WHILE_PAUSED,
        act=lambda monitor, parsed: monitor.control.resume(),
        of_hosted=lambda monitor, parsed: monitor.machine.resume(by=person().name),
    ),
    Change(
        name="ctrl_alt_del",
        right="operate",
        when=WHILE_RUNNING,
        act=lambda monitor, parsed: monitor.control.action("SendCtrlAltDel"),
    ),
    Change(
        name="stop",
        right="operate",
        when=STARTED | {NO_ANSWER},
        of_hosted=lambda monitor, parsed: monitor.end(),
        at_once=True,
    ),
    Change(name="delete", when=STOPPED, of_hosted=lambda monitor, parsed: monitor.delete()),
)
