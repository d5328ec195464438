"""A change is one button with its form; a panel has the changes of one subject."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from examples.console.account import User
from examples.console.forms import Fields, Section, Texts, is_known
from examples.console.hosted import HostedMonitor
from examples.console.monitors import (
    BUSY,
    ENDED,
    NO_ANSWER,
    NOT_STARTED,
    PAUSED,
    RUNNING,
    STARTED,
    STARTING,
    Machine,
    Monitor,
)
from examples.console.settings import Right
from examples.console.words import WHO, words_of
from generated_vmm import AsyncVmmClient
from generated_vmm.machines import Definition

STOPPED: Final[frozenset[str]] = frozenset({NOT_STARTED, ENDED})
WHILE_RUNNING: Final[frozenset[str]] = frozenset({RUNNING})
WHILE_PAUSED: Final[frozenset[str]] = frozenset({PAUSED})
ANY_TIME: Final[frozenset[str]] = STOPPED | STARTED

Parsed: TypeAlias = Mapping[str, Fields]
Act: TypeAlias = Callable[[Monitor, Parsed], Awaitable[object]]
Kept: TypeAlias = Callable[[Definition, Fields], Mapping[str, object]]
HostedAct: TypeAlias = Callable[[HostedMonitor, Parsed], Awaitable[object]]


def _say(said: object, kind: str, name: str) -> None:
    for member, text in words_of(kind, name).items():
        object.__setattr__(said, member, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of a machine in the states in `when`, by users who have the `right`.

    `of_hosted` carries it out with a machine of this console; `act` with any other one, and with
    both if it is alone. Changes wait for each other, except those that are `at_once`. With `items`,
    each device that it names has a form of its own. `title` is the heading of the folded form,
    `about` its description, `confirm` the question before, `working` the button's text meanwhile,
    and `done` the message afterwards, on the page of the machine that the field `leads_on` names.
    `verb` completes "Only an admin may …". `unless` says why this machine cannot be changed
    although its state allows it.
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
    of_hosted: HostedAct | None = None
    unless: Callable[[Machine], str] = lambda machine: ""
    items: Callable[[Machine], Sequence[str]] | None = None
    at_once: bool = False
    unfolded: bool = False
    leads_on: str = ""

    def __post_init__(self) -> None:
        """Its texts are in `words.toml`, unless they are here."""
        _say(self, "change", self.name)

    @property
    def not_yours(self) -> str:
        """Why users without the right cannot do this."""
        return f"Only {WHO[self.right]} may {self.verb}."

    @property
    def is_known(self) -> bool:
        """Whether the client has its models; one for an older release may not."""
        return all(is_known(section.model) and section.fields for section in self.sections)

    @property
    def has_inputs(self) -> bool:
        """Whether there is anything to fill in."""
        return any(field.kind != "item" for section in self.sections for field in section.fields)

    @property
    def is_power(self) -> bool:
        """Whether it is a button on every page."""
        return self.tab == "overview" and not self.sections

    def is_for(self, monitor: Monitor) -> bool:
        """Whether it can be carried out, or this console had to start the monitor for that."""
        return self.act is not None or isinstance(monitor, HostedMonitor)

    def is_possible(self, monitor: Monitor, machine: Machine, user: User) -> bool:
        """Whether the user may do it, and the machine can be changed so now."""
        is_mine = self.is_for(monitor) and user.may(self.right, monitor.name)
        return is_mine and not self.why_not(machine)

    async def do(self, monitor: Monitor, parsed: Parsed) -> None:
        """Carry it out."""
        if self.of_hosted is not None and isinstance(monitor, HostedMonitor):
            await self.of_hosted(monitor, parsed)
        elif self.act is not None:
            await self.act(monitor, parsed)

    def item_of(self, form: Texts) -> str:
        """The device that a form is about; empty for the machine."""
        fields = (section.item_field for section in self.sections)
        return next((form.get(name, "") for name in fields if name), "")

    def why_not(self, machine: Machine) -> str:
        """Why this cannot be done to the machine as it is; empty if it can."""
        return self.not_now(machine.state) or self.unless(machine)

    def not_now(self, state: str) -> str:
        """Why this cannot be done in `state`; empty if it can."""
        if state in self.when:
            return ""
        if state in _UNKNOWN:
            return _UNKNOWN[state]
        if state in STOPPED:
            return "Start the machine first."
        return "Stop the machine first." if self.when <= STOPPED else f"It is {state}."


_UNKNOWN: Final = {
    STARTING: "The monitor is starting.",
    BUSY: "The machine is busy.",
    NO_ANSWER: "The monitor does not respond.",
}


def edit(name: str, *sections: Section, **members: object) -> Change:
    """A change of what a machine is made of, at its next start."""

    async def of_hosted(monitor: HostedMonitor, parsed: Parsed) -> None:
        definition = monitor.machine.definition
        for section in sections:
            if section.key in parsed:
                definition = section.write(definition, parsed[section.key])
        await monitor.edit(definition)

    # The members are those of the class, which checks their names.
    return Change(
        name=name,
        when=STOPPED,
        sections=sections,
        of_hosted=of_hosted,
        **members,  # type: ignore[arg-type]
    )


def sent(
    call: Callable[[AsyncVmmClient, Fields], Awaitable[object]], kept: Kept = lambda *_: {}
) -> Act:
    """An act that sends its only section to a monitor that runs.

    `kept` are the members of the machine's definition that are stored then.
    """

    async def act(monitor: Monitor, parsed: Parsed) -> None:
        (fields,) = parsed.values()
        async with monitor.changing(lambda definition: kept(definition, fields)):
            await call(monitor.control, fields)

    return act


@dataclass(frozen=True, slots=True)
class Item:
    """A device in a panel's list: its id, and a short description."""

    id: str
    tags: Sequence[str] = ()
    detail: str = ""


async def no_facts(vm: AsyncVmmClient, machine: Machine) -> Mapping[str, str]:
    """Nothing that only a monitor knows."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """The changes of one subject, below its devices and facts.

    `items` are the devices, `none` is the text without any. `facts` reads what only the monitor
    knows, by label; it raises VmmError. Panels `aside` form the page's second column; values of
    those that are `is_secret` are for admins alone.
    """

    key: str
    changes: tuple[Change, ...]
    title: str = ""
    about: str = ""
    items: Callable[[Machine], Sequence[Item]] = lambda machine: ()
    none: str = ""
    aside: bool = False
    is_secret: bool = False
    facts: Callable[[AsyncVmmClient, Machine], Awaitable[Mapping[str, str]]] = no_facts

    def __post_init__(self) -> None:
        """Its texts are in `words.toml`."""
        _say(self, "panel", self.key)

    @property
    def tab(self) -> str:
        """The page it is on."""
        return self.changes[0].tab

    def values(self, machine: Machine, unfolded: Container[str] = ()) -> Mapping[str, str]:
        """What the machine has of what can be set up here, by label, except in `unfolded` forms."""
        return {
            one.label: text
            for change in self.changes
            for section in change.sections
            if change.items is None and change.name not in unfolded
            if section.found(machine.definition, "") is not None
            for one in section.fields
            if (text := section.values(machine.definition, {})[f"{section.key}.{one.name}"])
        }
