"""What a change is, one button with its form; and a panel, the changes of one subject."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from examples.console.fields import Fields, Texts
from examples.console.forms import Section
from examples.console.hosted import ENDED, STARTING
from examples.console.machine import Machine
from examples.console.monitors import Monitor
from generated_vmm import AsyncVmmClient

BEFORE_START: Final = frozenset({"Not started"})
RUNNING: Final = frozenset({"Running"})
PAUSED: Final = frozenset({"Paused"})
AFTER_START: Final = RUNNING | PAUSED
ANY_TIME: Final = BEFORE_START | AFTER_START

Parsed: TypeAlias = Mapping[str, Fields]
Act: TypeAlias = Callable[[Monitor, Parsed], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing an admin can do to a machine, in the states in `when`.

    The sections are sent in order, then `act` is done with what was typed, by section; changes
    wait for each other, unless one is done `at_once`. With `items` each device it names has a form
    of its own. A `hosted` change is one of machines whose monitor this console starts.
    `title` stands on the folded form, `about` says what it does; `confirm` is asked before,
    `working` stands on the button meanwhile, `done` is told afterwards, on the page of the machine
    that the field `leads_on` names. `verb` completes "Only an admin may …". `unless` says why it
    cannot be done to this machine, though the state would do, `never` why it can be in no state.
    """

    name: str
    tab: str
    button: str
    done: str
    verb: str
    when: frozenset[str]
    working: str = "Saving…"
    title: str = ""
    about: str = ""
    sections: tuple[Section, ...] = ()
    confirm: str = ""
    act: Act | None = None
    unless: Callable[[Machine], str] = lambda machine: ""
    never: Callable[[Machine], str] = lambda machine: ""
    items: Callable[[Machine], Sequence[str]] | None = None
    hosted: bool = False
    at_once: bool = False
    unfolded: bool = False
    leads_on: str = ""

    @property
    def has_inputs(self) -> bool:
        """Whether there is anything to fill in."""
        return any(field.kind != "item" for section in self.sections for field in section.fields)

    def item_of(self, form: Texts) -> str:
        """The device that a form is about; empty when it is the machine."""
        fields = (section.item_field for section in self.sections)
        return next((form.get(name, "") for name in fields if name), "")

    def why_not(self, machine: Machine) -> str:
        """Why this cannot be done to the machine as it is; empty when it can."""
        return self.never(machine) or self.not_now(machine.state) or self.unless(machine)

    def not_now(self, state: str) -> str:
        """Why this cannot be done in `state`; empty when it can."""
        if state in self.when:
            return ""
        if state in (ENDED, STARTING):
            return "The machine has ended." if state == ENDED else "The monitor is starting."
        if self.when == PAUSED:
            return "Pause the machine first." if state == "Running" else "Start the machine first."
        return (
            "Start the machine first."
            if state == "Not started"
            else "Only possible before the start."
        )


@dataclass(frozen=True, slots=True)
class Item:
    """A device in a panel's list: its id, short words on it, and where it leads."""

    id: str
    tags: Sequence[str] = ()
    detail: str = ""


async def _no_facts(vm: AsyncVmmClient, machine: Machine) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """The changes of one subject, below what there is of it.

    `items` are the devices there are, `none` is said without any. `facts` reads what else there
    is to show, by label; it raises VmmError. Panels `aside` make the page's second column.
    """

    key: str
    title: str
    about: str
    changes: tuple[Change, ...]
    items: Callable[[Machine], Sequence[Item]] = lambda machine: ()
    none: str = ""
    aside: bool = False
    facts: Callable[[AsyncVmmClient, Machine], Awaitable[Mapping[str, str]]] = _no_facts

    @property
    def tab(self) -> str:
        """The page it is on."""
        return self.changes[0].tab
