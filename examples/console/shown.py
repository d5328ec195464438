"""Forms as a page shows them: with values and faults, or the reason why they cannot be used."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from examples.console.carry_out import NO_FAILURE, Failure, explained
from examples.console.changes import CHANGES, Change, Item, Panel
from examples.console.fields import Texts
from examples.console.hosted import HostedMonitor
from examples.console.identity import User
from examples.console.library import Library
from examples.console.machine import Machine
from examples.console.meanwhile import PageState, fingerprint
from examples.console.monitors import Monitor
from examples.console.settings import Right
from generated_vmm import VmmError

MOST_ITEMS: Final = 50
"""The maximum number of devices of a kind that a page shows."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A failed change, with its input."""

    change: Change
    typed: Texts
    failure: Failure

    @property
    def item(self) -> str:
        """The device of the change; empty for the machine."""
        return self.change.item_of(self.typed)


@dataclass(frozen=True, slots=True)
class Form:
    """A change as its form shows it; `values` has a text for each `section.field`.

    `not_now` says why there is no form at the moment. `item` is the device that it is about.
    `page` is the state that the page shows: the server compares it with the current one when the
    form is sent.
    """

    change: Change
    values: Texts
    not_now: str
    failure: Failure = NO_FAILURE
    item: str = ""
    page: str = ""
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The id of the form on its page."""
        return f"{self.change.name}-{self.item}" if self.item else self.change.name

    @property
    def is_offered(self) -> bool:
        """Whether there is a form: it can be used, or has just been tried."""
        return not self.not_now or self.failure is not NO_FAILURE


@dataclass(frozen=True, slots=True)
class Shown:
    """A panel as a page shows it.

    `later` has the titles of changes that are not possible at the moment, by reason; `left_out` is
    the number of items that are not shown.
    """

    panel: Panel
    forms: Sequence[Form]
    items: Sequence[tuple[Item, Sequence[Form]]] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    later: Mapping[str, Sequence[str]] = field(default_factory=dict)
    fault: str = ""
    left_out: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing of the machine, and its user can do nothing with it."""
        return not (self.forms or self.items or self.facts or self.later or self.fault)


LISTED: Final = ("start", "pause", "resume", "stop")
"""The buttons of the list, for those who operate machines."""


def power_of(monitor: Monitor, state: str) -> Sequence[Form]:
    """The buttons that are useful in a state, for the list of machines."""
    page = str(PageState(state, monitor.run, time.time()))
    machine = Machine(state, monitor.definition)
    changes = (CHANGES[name] for name in LISTED)
    return [
        Form(change, {}, "", page=page)
        for change in changes
        if change.act_of(monitor) is not None and not change.why_not(machine)
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
        attempt, values, failure = self.attempt, dict[str, str](), NO_FAILURE
        for section in change.sections:
            values |= section.values(self.machine.definition, self.monitor.suggestions, item)
        if attempt is not None and (attempt.change.name, attempt.item) == (change.name, item):
            values = {name: attempt.typed.get(name, "") for name in values}
            failure = attempt.failure
        page, choices = str(self._page(change, item)), self._choices(change)
        return Form(change, values, self._not_now(change), failure, item, page, choices)

    def _choices(self, change: Change) -> Mapping[str, Sequence[str]]:
        if not isinstance(self.monitor, HostedMonitor) or not self.may("administer"):
            return {}
        return choices_of(self.monitor.house.library, change)

    def _page(self, change: Change, item: str) -> PageState:
        values = fingerprint(change, self.machine, item) if change.has_inputs else ""
        return PageState(self.machine.state, self.monitor.run, time.time(), values)

    def has(self, panel: Panel) -> bool:
        """Whether there is anything to see or to do with this kind of monitor."""
        return bool(self._possible(panel) or panel.items(self.machine))

    async def shown(self, panel: Panel) -> Shown:
        """The panel with its devices and facts, and its possible and impossible changes."""
        forms = [self.form(one) for one in self._possible(panel) if one.items is None]
        unfolded = {one.change.name for one in forms if one.is_offered and one.change.unfolded}
        facts, fault = dict[str, str](), ""
        if self.may("administer") or not panel.is_secret:
            try:
                facts |= panel.values(self.machine, unfolded)
                facts |= await panel.facts(self.monitor.watch, self.machine)
            except VmmError as error:
                fault = explained(self.monitor, error).sentence
        items = panel.items(self.machine)
        return Shown(
            panel,
            [form for form in forms if form.is_offered],
            [(item, list(self._forms_of(panel, item.id))) for item in items[:MOST_ITEMS]],
            facts,
            self._later(panel) if self.may("administer") else {},
            fault,
            max(len(items) - MOST_ITEMS, 0),
        )

    def refusal_without_place(self, tab: str) -> str:
        """Why a change failed that has no form on this page, for example of a removed device."""
        attempt = self.attempt
        return "" if attempt is None or self._has_place(attempt, tab) else attempt.failure.why

    def _has_place(self, attempt: Attempt, tab: str) -> bool:
        change = attempt.change
        if change.act_of(self.monitor) is None:
            return False
        if change.tab == "overview" and not change.sections:
            return True  # every page has this button
        if change.tab != tab or change.items is None:
            return change.tab == tab
        return attempt.item in change.items(self.machine)

    def _possible(self, panel: Panel) -> list[Change]:
        return [one for one in panel.changes if one.act_of(self.monitor) is not None]

    def _forms_of(self, panel: Panel, item: str) -> Iterator[Form]:
        for change in self._possible(panel):
            if change.items is not None and item in change.items(self.machine):
                form = self.form(change, item)
                if form.is_offered:
                    yield form

    def _later(self, panel: Panel) -> Mapping[str, Sequence[str]]:
        later: dict[str, list[str]] = {}
        for change in self._possible(panel):
            if change.items is None and (why := self._not_now(change)):
                later.setdefault(why, []).append(change.title or change.button)
        return later

    def _not_now(self, change: Change) -> str:
        return change.why_not(self.machine) if self.may(change.right) else change.not_yours
