"""A second machine that goes on where this one is."""

from __future__ import annotations

from examples.console.changes.change import AFTER_START, Change, Panel, Parsed
from examples.console.changes.power import hosted
from examples.console.cloning import Wish, clone
from examples.console.fields import Field
from examples.console.forms import Section
from examples.console.hosted import HostedMonitor
from examples.console.machine import Machine, pmem_of


async def _clone(monitor: HostedMonitor, parsed: Parsed) -> None:
    await clone(monitor, Wish.model_validate(parsed[CLONE.key]))


def _shares_memory(machine: Machine) -> str:
    if all(device.read_only for device in pmem_of(machine.configuration)):
        return ""
    return "This machine writes to persistent memory, which a clone would write to as well."


CLONE = Section(
    key="clone",
    title="Clone",
    model=Wish,
    fields=(
        Field("name", "Name of the clone"),
        Field("run", "Run it at once", kind="flag", initial="true"),
        Field("taps", "Tap devices", kind="pairs"),
    ),
    about={"a machine called": "name", "tap device": "taps", "disk": "name"},
)
CLONES = Panel(
    key="clones",
    aside=True,
    changes=(
        Change(
            name="clone",
            when=AFTER_START,
            unless=_shares_memory,
            sections=(CLONE,),
            act=hosted(_clone),
            hosted=True,
            unfolded=True,
            leads_on="clone.name",
        ),
    ),
)
