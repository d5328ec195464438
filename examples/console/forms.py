"""Forms made from the models of the monitor client, whose fields give help texts and limits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Self

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from examples.console.fields import Field, Fields, Texts, described, nested
from examples.console.machine import Machine
from examples.console.versions import ANY, Version, is_known, require, since
from examples.console.words import FAULTS, HINTS
from generated_vmm import AsyncVmmClient
from generated_vmm.model import ApiModel, Body


class Invalid(Exception):
    """The input is not valid for the model; `errors` has a sentence for each field."""

    def __init__(self, errors: Texts) -> None:
        super().__init__(f"invalid: {', '.join(errors)}")
        self.errors = errors


@dataclass(frozen=True, slots=True)
class Section:
    """The inputs for one model, which is sent with one call, if there is one.

    `fixed` are members by path that are not inputs. `current` finds the monitor's present model for
    the form's item. `about` maps a word of a fault message, in lower case, to its field. An
    `optional` section without input is not sent. `since` is the first release of the monitor with
    the call.
    """

    key: str
    title: str
    model: type[ApiModel]
    fields: tuple[Field, ...]
    send: Callable[[AsyncVmmClient, Fields], Awaitable[object]] | None = None
    current: Callable[[Machine, str], Body | None] = lambda machine, item: None
    fixed: Fields = field(default_factory=dict)
    about: Texts = field(default_factory=dict)
    optional: bool = False
    since: Version = ANY

    def __post_init__(self) -> None:
        """Drops fields that a client for an older release lacks. TypeError for unknown names."""
        members = self.model.model_fields
        if is_known(self.model):
            require(self.model, self._named())
        known = (
            replace(one, hint=one.hint or HINTS.get(f"{self.key}.{one.name}", ""))
            for one in self.fields
            if one.name.split(".")[0] in members
        )
        object.__setattr__(self, "fields", tuple(known))

    def _named(self) -> set[str]:
        """The paths of the members that are named here, without those that may be missing."""
        inputs = (path for one in self.fields for path in (one.name, one.reads_if))
        deprecated = {"", *(one.name for one in self.fields if one.deprecated)}
        return {*self.fixed, *self.about.values(), *inputs} - deprecated

    def for_release(self, version: Version) -> Self:
        """The section without inputs that a monitor of that release would refuse."""
        known = (
            one
            for one in self.fields
            if max(one.since, since(self.model, one.name.split(".")[0])) <= version
        )
        return replace(self, fields=tuple(known))

    def rows(self, *, rare: bool) -> list[tuple[str, list[Field]]]:
        """The visible inputs, those of a group together."""
        seen = [one for one in self.fields if one.rare is rare and one.kind != "item"]
        rows = groupby(seen, key=lambda one: one.group or one.name)
        return [(fields[0].group, fields) for fields in (list(row) for _, row in rows)]

    @property
    def item_field(self) -> str:
        """The input with the id of the device, as `key.field`; empty without one."""
        ids = (f"{self.key}.{one.name}" for one in self.fields if one.kind == "item")
        return next(ids, "")

    def hint(self, field: Field) -> str:
        """The field's help text."""
        return described(self.model, field)

    def parse(self, form: Texts) -> Fields | None:
        """The members to send, each in its type; empty inputs are not set. Raises Invalid.

        None for an optional section without input.
        """
        typed = {one: form.get(f"{self.key}.{one.name}", "").strip() for one in self.fields}
        begun = {one.group for one, text in typed.items() if text and one.group}
        implied = {one: one.implied if one.group in begun else "" for one in self.fields}
        given = {
            one.name: one.read(text) for one, raw in typed.items() if (text := raw or implied[one])
        }
        if self.optional and not given:
            return None
        try:
            # A form has texts only, so numbers and flags are read from texts here and only here.
            members = nested({**self.fixed, **given})
            model = self.model.model_validate(members, strict=False)
        except ValidationError as error:
            raise Invalid(_sentences(error, self.fields)) from error
        return model.model_dump(exclude_unset=True)

    def field_of(self, fault_message: str) -> str | None:
        """The field of the monitor's fault, as far as its text says."""
        fault = fault_message.lower()
        return next((name for word, name in self.about.items() if word in fault), None)

    def with_labels(self, sentence: str) -> str:
        """The sentence, with the form's label in place of the model's member at its beginning."""
        labels = {one.name: one.label for one in self.fields}
        member, space, rest = sentence.partition(" ")
        return f"{labels.get(member, member)}{space}{rest}"

    def values(self, machine: Machine | None, suggestions: Texts, item: str = "") -> Texts:
        """A text for each `key.field`: the monitor's present values, else the suggestions."""
        current = self.current(machine, item) if machine else None
        values: dict[str, str] = {}
        for one in self.fields:
            name = f"{self.key}.{one.name}"
            suggested = item if one.kind == "item" else suggestions.get(name, one.initial)
            values[name] = suggested if current is None else one.shown_of(current)
        return values


def _sentences(error: ValidationError, fields: Sequence[Field]) -> dict[str, str]:
    """The first fault of each field, in words."""
    sentences: dict[str, str] = {}
    for fault in error.errors(include_url=False, include_input=False):
        path = ".".join(map(str, fault["loc"]))
        field = _field_at(path, fields)
        within = path.removeprefix(field.name).strip(".")
        sentences.setdefault(field.name, _within(field, within, _sentence(fault)))
    return sentences


def _field_at(path: str, fields: Sequence[Field]) -> Field:
    """The field of the faulty member; the first one of the form if there is none."""
    within = (field for field in fields if f"{path}.".startswith(f"{field.name}."))
    return next(within, fields[0])


def _within(field: Field, place: str, sentence: str) -> str:
    if field.kind == "pairs":
        return "Write it as in eth0=tap7."
    return f"{place}: {sentence}" if place else sentence


def _sentence(fault: ErrorDetails) -> str:
    known = FAULTS.get(fault["type"])
    if known is None:
        return fault["msg"].replace("Input should be", "Must be") + "."
    return known.format_map(fault.get("ctx", {}))
