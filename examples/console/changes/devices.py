"""What drives, network interfaces and persistent memory share: they come, change and go by id."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from examples.console.changes.change import AFTER_START, ANY_TIME, BEFORE_START, Change, Parsed
from examples.console.changes.power import hosted
from examples.console.fields import Field, as_item
from examples.console.forms import Section
from examples.console.hosted import HostedMonitor
from examples.console.machine import Machine
from examples.console.versions import in_words
from generated_vmm import AsyncVmmClient

TAB = "devices"
PLUGGING = (1, 16)
NO_PCI = "Devices come and go while it runs only if it was created for that (PCI)."


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of device: its `section` sets one up, `limits` changes one that is there.

    `ids` are those that are there, `removable` those that may go and be set up anew.
    """

    name: str
    noun: str
    id_name: str
    section: Section
    limits: Section
    ids: Callable[[Machine], Sequence[str]]
    removable: Callable[[Machine], Sequence[str]]
    delete: Callable[[AsyncVmmClient, str], Awaitable[None]]

    @property
    def verb(self) -> str:
        """What somebody does who may do any of it."""
        return f"change {self.noun}s"


def without_pci(machine: Machine) -> str:
    """Why nothing can be plugged; a machine whose monitor somebody else started is asked."""
    if not machine.is_started:
        return ""
    if machine.version < PLUGGING:
        return f"Devices come and go since release {in_words(PLUGGING)} of the monitor."
    return NO_PCI if machine.has_pci is False else ""


def device_changes(kind: Kind) -> tuple[Change, ...]:
    """Adding, setting up anew, limiting and removing."""
    return (
        *(_adding(kind), _setting_up_anew(kind), _limiting(kind), _removing(kind)),
        _dropping(kind),
    )


def _adding(kind: Kind) -> Change:
    return Change(
        name=kind.name,
        tab=TAB,
        title=f"Add a {kind.noun}",
        about=f"Before the start, the guest boots with it; while it runs, the {kind.noun} is "
        "plugged in, if the machine was created for that (PCI).",
        button=f"Add {kind.noun}",
        done=f"The {kind.noun} is added.",
        verb=kind.verb,
        when=ANY_TIME,
        unless=without_pci,
        sections=(kind.section,),
    )


def _setting_up_anew(kind: Kind) -> Change:
    return Change(
        name=f"{kind.name}_anew",
        tab=TAB,
        title="Change",
        about="It is set up anew with all that is said here.",
        button="Save",
        done=f"The {kind.noun} is changed.",
        verb=kind.verb,
        when=BEFORE_START,
        sections=(_anew(kind),),
        items=kind.removable,
    )


def _limiting(kind: Kind) -> Change:
    return Change(
        name=f"{kind.name}_limits",
        tab=TAB,
        title="Limits",
        about="They hold at once. A limit that is left empty stays as it is.",
        button="Save limits of",
        done="The limits have changed.",
        verb=kind.verb,
        when=AFTER_START,
        sections=(kind.limits,),
        items=kind.ids,
    )


def _removing(kind: Kind) -> Change:
    return Change(
        name=f"{kind.name}_removal",
        tab=TAB,
        title=f"Remove a {kind.noun}",
        button="Remove",
        working="Removing…",
        done=f"The {kind.noun} is removed.",
        verb=kind.verb,
        when=AFTER_START,
        confirm=f"Remove this {kind.noun} while the guest may use it?",
        unless=without_pci,
        sections=(_removal(kind),),
        items=kind.removable,
    )


def _dropping(kind: Kind) -> Change:
    section = replace(_removal(kind), key=f"{kind.name}_drop", send=None)

    async def drop(monitor: HostedMonitor, parsed: Parsed) -> None:
        device = str(parsed[section.key][kind.id_name])
        await monitor.drop(kind.name, kind.id_name, device)

    return Change(
        name=f"{kind.name}_drop",
        tab=TAB,
        title=f"Remove a {kind.noun}",
        button="Remove",
        working="Removing…",
        done=f"The {kind.noun} is removed.",
        verb=kind.verb,
        when=BEFORE_START,
        sections=(section,),
        items=kind.ids,
        act=hosted(drop),
        hosted=True,
    )


def _anew(kind: Kind) -> Section:
    """The same section for a device that is there."""
    fields = as_item(kind.section.fields, kind.id_name)
    return replace(kind.section, key=f"{kind.section.key}_anew", fields=fields)


def _removal(kind: Kind) -> Section:
    return Section(
        key=f"{kind.name}_removal",
        title="",
        model=kind.limits.model,
        fields=(Field(kind.id_name, "Name", "item"),),
        send=lambda vm, fields: kind.delete(vm, str(fields[kind.id_name])),
    )
