"""The memory balloon: there or not before the start, its size and pace after."""

from __future__ import annotations

from examples.console.changes.change import AFTER_START, BEFORE_START, Change
from examples.console.forms import Field, Section
from examples.console.machine import Machine
from generated_vmm import Balloon, BalloonStatsUpdate, BalloonUpdate


def _balloon(machine: Machine) -> Balloon | None:
    return machine.configuration.balloon


BALLOON = Section(
    key="balloon",
    title="Balloon",
    model=Balloon,
    fields=(
        Field("amount_mib", "Size in MiB", kind="number", initial="0"),
        Field("deflate_on_oom", "Give memory back when the guest runs out", kind="flag"),
        Field("stats_polling_interval_s", "Statistics every … seconds", "number", initial="1"),
        Field("free_page_reporting", "Report freed pages", kind="flag"),
    ),
    send=lambda vm, fields: vm.balloon.set(fields),
    current=_balloon,
    fixed={"deflate_on_oom": False},
    about={"amount of pages": "amount_mib", "balloon": "amount_mib"},
)
SIZE = Section(
    key="balloon_size",
    title="Balloon",
    model=BalloonUpdate,
    fields=(Field("amount_mib", "Size in MiB", kind="number"),),
    send=lambda vm, fields: vm.balloon.update(fields),
    current=_balloon,
    about={"amount of pages": "amount_mib", "requested memory": "amount_mib"},
)
PACE = Section(
    key="balloon_pace",
    title="Statistics",
    model=BalloonStatsUpdate,
    fields=(Field("stats_polling_interval_s", "Statistics every … seconds", kind="number"),),
    send=lambda vm, fields: vm.balloon.stats.update(fields),
    current=_balloon,
    about={"statistics": "stats_polling_interval_s"},
)
BALLOON_CHANGES = (
    Change(
        name="balloon",
        tab="devices",
        button="Save balloon",
        working="Saving…",
        done="Balloon saved.",
        verb="change the balloon",
        when=BEFORE_START,
        sections=(BALLOON,),
    ),
    Change(
        name="balloon_size",
        tab="devices",
        button="Resize balloon",
        working="Resizing…",
        done="The guest was asked to follow.",
        verb="change the balloon",
        when=AFTER_START,
        sections=(SIZE,),
    ),
    Change(
        name="balloon_pace",
        tab="devices",
        button="Change pace",
        working="Changing…",
        done="The pace has changed.",
        verb="change the balloon",
        when=AFTER_START,
        sections=(PACE,),
    ),
)
