"""The common changes of drives, network interfaces and persistent memory."""

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
from generated_vmm import AsyncVmmClient, FullVmConfiguration

PLUGGING = (1, 16)
NO_PCI = "Devices come and go while it runs only if it was created for that (PCI)."


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of device: its `section` sets one up, `limits` changes an existing one.

    `ids` are the existing ones, `removable` those that may be removed and set up again. `drop`
    takes one out of a configuration. The texts of its changes are made with the kind's noun in
    `words.toml`.
    """

    name: str
    id_name: str
    section: Section
    limits: Section
    ids: Callable[[Machine], Sequence[str]]
    removable: Callable[[Machine], Sequence[str]]
    delete: Callable[[AsyncVmmClient, str], Awaitable[None]]
    drop: Callable[[FullVmConfiguration, str], None]


def tags_of(*, root: bool | None, reads: bool | None, limits: object) -> list[str]:
    """A short description of a device with a file."""
    tags = {"root": root, "read only": reads, "limited": limits}
    return [tag for tag, has in tags.items() if has]


def without_pci(machine: Machine) -> str:
    """Why nothing can be plugged; empty if only the monitor, started elsewhere, knows it."""
    if not machine.is_started:
        return ""
    if machine.version < PLUGGING:
        return f"Devices come and go since release {in_words(PLUGGING)} of the monitor."
    return NO_PCI if machine.has_pci is False else ""


def device_changes(kind: Kind) -> tuple[Change, ...]:
    """Adding, setting up again, limiting and removing."""
    name = kind.name
    return (
        Change(name=name, when=ANY_TIME, unless=without_pci, sections=(kind.section,)),
        Change(
            name=f"{name}_anew", when=BEFORE_START, sections=(_anew(kind),), items=kind.removable
        ),
        Change(name=f"{name}_limits", when=AFTER_START, sections=(kind.limits,), items=kind.ids),
        Change(
            name=f"{name}_removal",
            when=AFTER_START,
            unless=without_pci,
            sections=(_removal(kind),),
            items=kind.removable,
        ),
        _dropping(kind),
    )


def _dropping(kind: Kind) -> Change:
    """Removing before the start, which restarts the monitor."""
    section = replace(_removal(kind), key=f"{kind.name}_drop", send=None)

    async def drop(monitor: HostedMonitor, parsed: Parsed) -> None:
        device = str(parsed[section.key][kind.id_name])
        await monitor.drop(lambda made: kind.drop(made, device))

    return Change(
        name=section.key,
        when=BEFORE_START,
        sections=(section,),
        items=kind.ids,
        act=hosted(drop),
        hosted=True,
    )


def _anew(kind: Kind) -> Section:
    """The same section for an existing device."""
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
