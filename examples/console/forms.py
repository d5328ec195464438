"""Forms made from the models of the monitor client, whose fields give help texts and limits."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from examples.console.machine import Machine
from generated_vmm import AsyncVmmClient
from generated_vmm.model import ApiModel

Fields: TypeAlias = Mapping[str, object]
Texts: TypeAlias = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Field:
    """One input; `name` is the model's field, `initial` stands in an empty form.

    `hint` replaces the model's own description where a form needs other words.
    """

    name: str
    label: str
    kind: Literal["text", "number", "flag", "choice", "words", "document"] = "text"
    choices: tuple[str, ...] = ()
    initial: str = ""
    hint: str = ""


_ABOUT_ABSENCE: Final = re.compile(r" (False when absent|Since 1)\b[^.]*(\.\d+[^.]*)*\.")


class Invalid(Exception):
    """What was typed makes no model; `errors` has a sentence for each field."""

    def __init__(self, errors: Texts) -> None:
        super().__init__(f"invalid: {', '.join(errors)}")
        self.errors = errors


@dataclass(frozen=True, slots=True)
class Section:
    """The inputs that become one model, which is sent with one call.

    `fixed` are members nobody is asked for, `current` finds the model in what the monitor has now.
    `about` maps a word in a fault message to the field it is about; in lower case. An `optional`
    section with nothing in it is not sent.
    """

    key: str
    title: str
    model: type[ApiModel]
    fields: tuple[Field, ...]
    send: Callable[[AsyncVmmClient, Fields], Awaitable[None]]
    current: Callable[[Machine], ApiModel | None] = lambda machine: None
    fixed: Fields = field(default_factory=dict)
    about: Texts = field(default_factory=dict)
    optional: bool = False

    def __post_init__(self) -> None:
        """A client for an older monitor lacks some fields of its models: so does the form."""
        known = (one for one in self.fields if one.name in self.model.model_fields)
        object.__setattr__(self, "fields", tuple(known))

    def hint(self, field: Field) -> str:
        """What the field is for, in the words of the model; absence is no matter of a form."""
        described = self.model.model_fields[field.name].description or ""
        return field.hint or _ABOUT_ABSENCE.sub("", described).replace("`", "")

    def parse(self, form: Texts) -> Fields:
        """The members to send, each in its type; inputs left empty are not set. Raises Invalid."""
        typed = {one: form.get(f"{self.key}.{one.name}", "").strip() for one in self.fields}
        given = {one.name: _read(one, text) for one, text in typed.items() if text}
        if self.optional and not given:
            return {}
        try:
            # A form has texts only, so numbers and flags are read from texts here and only here.
            model = self.model.model_validate({**self.fixed, **given}, strict=False)
        except ValidationError as error:
            raise Invalid(_sentences(error)) from error
        return model.model_dump(exclude_unset=True)

    def field_of(self, fault_message: str) -> str | None:
        """The field that the monitor complains about, as far as its words tell."""
        fault = fault_message.lower()
        return next((name for word, name in self.about.items() if word in fault), None)

    def with_labels(self, sentence: str) -> str:
        """A sentence that names the form's labels in place of the model's members."""
        for one in self.fields:
            sentence = re.sub(rf"\b{one.name}\b", one.label, sentence)
        return sentence

    def values(self, machine: Machine | None, suggestions: Texts) -> Texts:
        """A text for each `key.field`: the monitor's present values, else what is suggested."""
        current = self.current(machine) if machine else None
        values: dict[str, str] = {}
        for one in self.fields:
            name = f"{self.key}.{one.name}"
            suggested = suggestions.get(name, one.initial)
            values[name] = suggested if current is None else _shown(getattr(current, one.name))
        return values


def _read(field: Field, text: str) -> object:
    return text.replace(",", " ").split() if field.kind == "words" else text


def _shown(value: object) -> str:
    match value:
        case bool():
            return "true" if value else ""
        case list():
            return " ".join(map(str, value))
        case dict():
            return json.dumps(value, indent=2, ensure_ascii=False)
    return "" if value is None else str(value)


_SENTENCES: Texts = {
    "missing": "This is needed.",
    "int_parsing": "Enter a whole number.",
    "int_from_float": "Enter a whole number.",
    "string_pattern_mismatch": "This is not of the form that is needed.",
    "json_invalid": "This is not JSON: {error}.",
    "dict_type": "Enter a JSON object, as in {{}}.",
}


def _sentences(error: ValidationError) -> dict[str, str]:
    """For each field what is wrong with it, for a person to read."""
    faults = error.errors(include_url=False, include_input=False)
    return {str(fault["loc"][0]): _sentence(fault) for fault in faults if fault["loc"]}


def _sentence(fault: ErrorDetails) -> str:
    known = _SENTENCES.get(fault["type"])
    if known is None:
        return fault["msg"].replace("Input should be", "Must be") + "."
    return known.format_map(fault.get("ctx", {}))
