"""A change is one button with its form; a panel has the changes of one subject."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self, TypeAlias

from examples.console.fields import Fields, Texts
from examples.console.forms import Section
from examples.console.identity import WHO, Right
from examples.console.machine import (
    BUSY,
    ENDED,
    NO_ANSWER,
    NOT_STARTED,
    PAUSED,
    RUNNING,
    STARTING,
    Machine,
)
from examples.console.monitors import Monitor
from examples.console.versions import ANY, Version, in_words, is_known
from examples.console.words import words_of
from generated_vmm import AsyncVmmClient

BEFORE_START: Final = frozenset({NOT_STARTED})
WHILE_RUNNING: Final = frozenset({RUNNING})
WHILE_PAUSED: Final = frozenset({PAUSED})
AFTER_START: Final = WHILE_RUNNING | WHILE_PAUSED
ANY_TIME: Final = BEFORE_START | AFTER_START

Parsed: TypeAlias = Mapping[str, Fields]
Act: TypeAlias = Callable[[Monitor, Parsed], Awaitable[object]]


def _say(said: object, kind: str, name: str) -> None:
    for member, text in words_of(kind, name).items():
        object.__setattr__(said, member, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change that an admin can make to a machine in the states in `when`.

    The sections are sent in order, then `act` is called with the input, by section; changes wait
    for each other, except those that are `at_once`. With `items`, each device that it names has a
    form of its own. A `hosted` change is for machines whose monitor this console starts, a
    `foreign` one only for others.
    `right` is what users need. `title` is the heading of the folded form, `about` its
    description, `confirm` the question before (`asks` makes one of the input), `working` the
    button's text meanwhile, and `done` the message afterwards, on the page of the machine that
    the field `leads_on` names. `verb` completes "Only an admin may …". `unless` says why this
    machine cannot be changed although its state allows it, `never` why no state allows it.
    `since` is the first release of the monitor that supports it.
    """

    name: str
    when: frozenset[str]
    right: Right = "administer"
    tab: str = ""
    button: str = ""
    done: str = ""
    verb: str = ""
    working: str = "Saving…"
    title: str = ""
    about: str = ""
    sections: tuple[Section, ...] = ()
    confirm: str = ""
    act: Act | None = None
    unless: Callable[[Machine], str] = lambda machine: ""
    never: Callable[[Machine], str] = lambda machine: ""
    asks: Callable[[Parsed], str] = lambda parsed: ""
    items: Callable[[Machine], Sequence[str]] | None = None
    hosted: bool = False
    foreign: bool = False
    at_once: bool = False
    unfolded: bool = False
    leads_on: str = ""
    since: Version = ANY

    def __post_init__(self) -> None:
        """Its texts are in `words.toml`, unless they are here."""
        _say(self, "change", self.name)

    @property
    def not_yours(self) -> str:
        """Why users without the right cannot do this."""
        return f"Only {WHO[self.right]} may {self.verb}."

    @property
    def is_known(self) -> bool:
        """Whether the client has something to send; one for another release may not."""
        return all(is_known(section.model) and section.fields for section in self.sections)

    @property
    def release(self) -> Version:
        """The first release of the monitor that supports it."""
        return max(self.since, *(section.since for section in self.sections), ANY)

    def for_release(self, version: Version) -> Self:
        """The change without inputs that a monitor of that release would refuse."""
        return replace(self, sections=tuple(one.for_release(version) for one in self.sections))

    @property
    def has_inputs(self) -> bool:
        """Whether there is anything to fill in."""
        return any(field.kind != "item" for section in self.sections for field in section.fields)

    @property
    def names_disks(self) -> bool:
        """Whether disks are chosen in its form."""
        return any("disks" in one.places for section in self.sections for one in section.fields)

    def item_of(self, form: Texts) -> str:
        """The device that a form is about; empty for the machine."""
        fields = (section.item_field for section in self.sections)
        return next((form.get(name, "") for name in fields if name), "")

    def why_not(self, machine: Machine) -> str:
        """Why this cannot be done to the machine as it is; empty if it can."""
        if machine.version < self.release:
            return f"This needs a monitor of release {in_words(self.release)} or newer."
        return self.never(machine) or self.not_now(machine.state) or self.unless(machine)

    def not_now(self, state: str) -> str:
        """Why this cannot be done in `state`; empty if it can."""
        if state in self.when:
            return ""
        if state in _WITHOUT_MONITOR:
            return _WITHOUT_MONITOR[state]
        if ENDED in self.when and state in AFTER_START:
            return "Stop the machine first."
        if self.when == WHILE_PAUSED and state == RUNNING:
            return "Pause the machine first."
        if state == NOT_STARTED:
            return "Start the machine first."
        return "Only possible before the start." if NOT_STARTED in self.when else f"It is {state}."


_WITHOUT_MONITOR: Final = {
    ENDED: "The machine has ended.",
    STARTING: "The monitor is starting.",
    BUSY: "The machine is busy.",
    NO_ANSWER: "The monitor does not respond.",
}


@dataclass(frozen=True, slots=True)
class Item:
    """A device in a panel's list: its id, a short description, and its link."""

    id: str
    tags: Sequence[str] = ()
    detail: str = ""


async def _no_facts(vm: AsyncVmmClient, machine: Machine) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """The changes of one subject, below its devices and facts.

    `items` are the devices, `none` is the text without any. `facts` reads other facts, by label; it
    raises VmmError; those of a panel that `is_secret` are for admins alone. Panels `aside` form the
    page's second column.
    """

    key: str
    changes: tuple[Change, ...]
    title: str = ""
    about: str = ""
    items: Callable[[Machine], Sequence[Item]] = lambda machine: ()
    none: str = ""
    aside: bool = False
    is_secret: bool = False
    facts: Callable[[AsyncVmmClient, Machine], Awaitable[Mapping[str, str]]] = _no_facts

    def __post_init__(self) -> None:
        """Its texts are in `words.toml`."""
        _say(self, "panel", self.key)

    @property
    def tab(self) -> str:
        """The page it is on."""
        return self.changes[0].tab
