"""One input of a form: its label, its value, and its hint."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from pydantic import BaseModel

from examples.console.library import Place
from generated_vmm.model import ApiModel

Fields: TypeAlias = Mapping[str, object]
Texts: TypeAlias = Mapping[str, str]
Kind: TypeAlias = Literal["text", "number", "flag", "choice", "words", "pairs", "document", "item"]


@dataclass(frozen=True, slots=True)
class Field:
    """One input of the model's member `name`.

    `initial` is its value in an empty form, `hint` replaces the model's own description. `rare`
    fields are folded. A file of one of the `places` is chosen from a list. The `item` of a form is
    the device that it is about.
    """

    name: str
    label: str
    kind: Kind = "text"
    choices: tuple[str, ...] = ()
    initial: str = ""
    hint: str = ""
    rare: bool = False
    places: tuple[Place, ...] = ()

    def read(self, text: str) -> object:
        """The input, in the model's type."""
        if self.kind == "words":
            return text.replace(",", " ").split()
        if self.kind == "pairs":
            pairs = (word.partition("=") for word in text.replace(",", " ").split())
            return [{"iface_id": name, "host_dev_name": device} for name, _, device in pairs]
        return text

    def shown_of(self, model: BaseModel) -> str:
        """The text for the model's value."""
        return shown_text(getattr(model, self.name, None))


def as_item(fields: Iterable[Field], name: str) -> tuple[Field, ...]:
    """The same fields for an existing device, without its id."""
    return tuple(replace(one, kind="item") if one.name == name else one for one in fields)


def rare(*fields: Field) -> tuple[Field, ...]:
    """The same fields, folded."""
    return tuple(replace(one, rare=True) for one in fields)


def described(model: type[ApiModel], field: Field) -> str:
    """The field's hint, or the model's description."""
    member = model.model_fields.get(field.name)
    return field.hint or (member.description if member else None) or ""


def shown_text(value: object) -> str:
    """The text of a value in a form."""
    match value:
        case bool():
            return "true" if value else ""
        case list():
            return " ".join(map(str, value))
        case dict():
            return json.dumps(value, indent=2, ensure_ascii=False)
    return "" if value is None else str(value)
