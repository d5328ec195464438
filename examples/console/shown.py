"""Forms as a page shows them, with values and faults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from examples.console.account import User
from examples.console.carry_out import PageState, fingerprint
from examples.console.changes import CHANGES, Change, Item, Panel
from examples.console.failures import Failure, as_sentence
from examples.console.forms import Texts
from examples.console.hosted import HostedMonitor
from examples.console.library import Library
from examples.console.monitors import Machine, Monitor
from examples.console.settings import Right
from generated_vmm import VmmError

LISTED: Final = ("start", "pause", "resume", "stop")
"""The changes of the list of machines."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A failed change, with its input."""

    change: Change
    typed: Texts
    failure: Failure

    def is_of(self, change: Change, item: str) -> bool:
        """Whether it was tried with this form."""
        return (self.change.name, self.change.item_of(self.typed)) == (change.name, item)


@dataclass(frozen=True, slots=True)
class Form:
    """A change as its form shows it; `values` has a text for each `section.field`.

    `item` is the device that it is about. `page` is the state that the page shows: the server
    compares it with the current one when the form is sent. It is not offered if the machine cannot
    be changed so now.
    """

    change: Change
    values: Texts
    failure: Failure | None = None
    item: str = ""
    page: str = ""
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    is_offered: bool = True

    @property
    def id(self) -> str:
        """The id of the form on its page."""
        return f"{self.change.name}-{self.item}" if self.item else self.change.name

    @property
    def faults(self) -> Texts:
        """What is wrong with the input, by `section.field`."""
        return self.failure.fields if self.failure else {}


@dataclass(frozen=True, slots=True)
class Shown:
    """A panel as a page shows it."""

    panel: Panel
    forms: Sequence[Form]
    items: Sequence[tuple[Item, Sequence[Form]]]
    facts: Mapping[str, str]
    fault: str

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing of the machine, and its user can do nothing with it."""
        return not (self.forms or self.items or self.facts or self.fault or self.panel.none)


def power_of(monitor: Monitor, machine: Machine, user: User) -> Sequence[Form]:
    """The buttons that are useful to the user now."""
    page = str(PageState(machine.state, monitor.run))
    return [
        Form(change, {}, page=page)
        for change in CHANGES.values()
        if change.is_power and change.is_possible(monitor, machine, user)
    ]


def choices_of(library: Library, change: Change) -> Mapping[str, Sequence[str]]:
    """The files that each field for one can be set to, by `section.field`."""
    return {
        f"{section.key}.{one.name}": [str(path) for at in one.places for path in library.paths(at)]
        for section in change.sections
        for one in section.fields
        if one.places
    }


@dataclass(frozen=True, slots=True)
class Desk:
    """The page with a change's form, for users who may change machines, or only see them."""

    monitor: Monitor
    machine: Machine
    user: User
    attempt: Attempt | None

    def may(self, right: Right) -> bool:
        """Whether the user has the right for this machine."""
        return self.user.may(right, self.monitor.name)

    def form(self, change: Change, item: str = "") -> Form:
        """The refused input, or else the machine's values."""
        values, attempt, library = dict[str, str](), self.attempt, None
        for section in change.sections:
            values |= section.values(self.machine.definition, self.monitor.suggestions, item)
        if attempt is not None and attempt.is_of(change, item):
            values = {name: attempt.typed.get(name, "") for name in values}
        else:
            attempt = None
        if isinstance(self.monitor, HostedMonitor) and self.may("administer"):
            library = self.monitor.house.library
        return Form(
            change,
            values,
            attempt.failure if attempt else None,
            item,
            str(self._page(change, item)),
            choices_of(library, change) if library else {},
            change.is_possible(self.monitor, self.machine, self.user),
        )

    def _page(self, change: Change, item: str) -> PageState:
        values = fingerprint(change, self.machine, item) if change.has_inputs else ""
        return PageState(self.machine.state, self.monitor.run, values)

    async def panels(self, panels: Sequence[Panel]) -> list[Shown]:
        """Those that have anything to see or to do."""
        shown = [await self._shown(one) for one in panels]
        return [one for one in shown if not one.is_empty]

    async def _shown(self, panel: Panel) -> Shown:
        forms = [self.form(one) for one in panel.changes if one.items is None]
        offered = [one for one in forms if one.is_offered]
        unfolded = {one.change.name for one in offered if one.change.unfolded}
        facts, fault = dict[str, str](), ""
        if self.may("administer") or not panel.is_secret:
            try:
                facts |= panel.values(self.machine, unfolded)
                facts |= await panel.facts(self.monitor.watch, self.machine)
            except VmmError as error:
                fault = as_sentence(error)
        items = [(item, list(self._forms_of(panel, item.id))) for item in panel.items(self.machine)]
        return Shown(panel, offered, items, facts, fault)

    def _forms_of(self, panel: Panel, item: str) -> Iterator[Form]:
        for change in panel.changes:
            if change.items is not None and item in change.items(self.machine):
                form = self.form(change, item)
                if form.is_offered:
                    yield form
