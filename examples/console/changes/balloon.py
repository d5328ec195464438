"""The memory balloon: set up before the start; size, interval and hints after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from examples.console.changes.change import AFTER_START, BEFORE_START, Change, Panel
from examples.console.fields import Field
from examples.console.forms import Section
from examples.console.machine import Machine
from examples.console.versions import require
from examples.console.words import STATISTICS
from generated_vmm import (
    AsyncVmmClient,
    Balloon,
    BalloonStartCmd,
    BalloonStats,
    BalloonStatsUpdate,
    BalloonUpdate,
)

BYTES_PER_MIB: Final = 1 << 20
HINTING: Final = (1, 14)
"""The release that added hints and reports about free pages."""


require(BalloonStats, [*STATISTICS["in_bytes"], *STATISTICS["counted"]])


def _balloon(machine: Machine) -> Balloon | None:
    return machine.configuration.balloon


def _no_balloon(machine: Machine) -> str:
    return "" if _balloon(machine) else "This machine has started without a balloon."


def _no_statistics(machine: Machine) -> str:
    if _no_balloon(machine) or machine.has_statistics:
        return _no_balloon(machine)
    return "This machine has started without statistics."


def _no_hinting(machine: Machine) -> str:
    balloon = _balloon(machine)
    if balloon is None or balloon.free_page_hinting:
        return _no_balloon(machine)
    return "Hints were not allowed before the start."


async def _facts(vm: AsyncVmmClient, machine: Machine) -> Mapping[str, str]:
    balloon = _balloon(machine)
    if balloon is None:
        return {"Balloon": "none"}
    facts = {"Asked for": f"{balloon.amount_mib} MiB"}
    if machine.has_statistics:
        facts |= _statistics(await vm.balloon.stats.get())
    if machine.is_started and balloon.free_page_hinting:
        status = await vm.balloon.hinting.status()
        guest = "none" if status.guest_cmd is None else status.guest_cmd
        facts["Hints"] = f"last command of the host {status.host_cmd}, of the guest {guest}"
    return facts


def _statistics(stats: BalloonStats) -> Mapping[str, str]:
    """The guest's statistics, with memory in MiB."""
    told = stats.model_dump(exclude_none=True)
    memory, counts = (
        {label: told[key] for key, label in STATISTICS[kind].items() if key in told}
        for kind in ("in_bytes", "counted")
    )
    in_mib = {label: f"{size / BYTES_PER_MIB:.0f} MiB" for label, size in memory.items()}
    numbers = {label: str(number) for label, number in counts.items()}
    return {"Given up": f"{stats.actual_mib} MiB", **in_mib, **numbers}


BALLOON = Section(
    key="balloon",
    title="Balloon",
    model=Balloon,
    fields=(
        Field("amount_mib", "Size in MiB", kind="number", initial="0"),
        Field("deflate_on_oom", "Give memory back when the guest runs out", kind="flag"),
        Field("stats_polling_interval_s", "Statistics every … seconds", "number", initial="1"),
        Field("free_page_reporting", "The guest reports freed pages", "flag", since=HINTING),
        Field("free_page_hinting", "Ask for hints about free pages", "flag", since=HINTING),
    ),
    send=lambda vm, fields: vm.balloon.set(fields),
    current=lambda machine, item: _balloon(machine),
    fixed={"deflate_on_oom": False},
    about={"amount of pages": "amount_mib", "balloon": "amount_mib"},
)
SIZE = Section(
    key="balloon_size",
    title="Balloon",
    model=BalloonUpdate,
    fields=(Field("amount_mib", "Size in MiB", kind="number"),),
    send=lambda vm, fields: vm.balloon.update(fields),
    current=lambda machine, item: _balloon(machine),
    about={"amount of pages": "amount_mib", "requested memory": "amount_mib"},
)
PACE = Section(
    key="balloon_pace",
    title="Statistics",
    model=BalloonStatsUpdate,
    fields=(Field("stats_polling_interval_s", "Statistics every … seconds", kind="number"),),
    send=lambda vm, fields: vm.balloon.stats.update(fields),
    current=lambda machine, item: _balloon(machine),
    about={"statistics": "stats_polling_interval_s"},
)
HINTS = Section(
    key="hints",
    title="Hints",
    model=BalloonStartCmd,
    since=HINTING,
    fields=(
        Field("acknowledge_on_stop", "Confirm when the guest is done", "flag", initial="true"),
    ),
    send=lambda vm, fields: vm.balloon.hinting.start(fields),
    fixed={"acknowledge_on_stop": False},
)
BALLOONS = Panel(
    key="balloons",
    facts=_facts,
    changes=(
        Change(name="balloon", when=BEFORE_START, sections=(BALLOON,)),
        Change(
            name="balloon_size",
            when=AFTER_START,
            unless=_no_balloon,
            sections=(SIZE,),
            unfolded=True,
        ),
        Change(name="balloon_pace", when=AFTER_START, unless=_no_statistics, sections=(PACE,)),
        Change(name="hints", when=AFTER_START, unless=_no_hinting, sections=(HINTS,)),
        Change(
            name="hints_end",
            since=HINTING,
            when=AFTER_START,
            unless=_no_hinting,
            act=lambda monitor, parsed: monitor.control.balloon.hinting.stop(),
        ),
    ),
)
