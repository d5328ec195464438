"""One input of a form: its label, its value, and its hint."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pydantic import BaseModel

from examples.console.library import Place
from examples.console.words import ABSENCE
from generated_vmm.model import ApiModel

if TYPE_CHECKING:
    from generated_vmm import NetworkOverrideFields

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
            return [_pair(word) for word in text.replace(",", " ").split()]
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


_SINCE: Final = re.compile(r" (False when absent|True when absent|Since 1)\b[^.]*(\.\d+[^.]*)*\.")


def described(model: type[ApiModel], field: Field) -> str:
    """The field's hint, or the model's description, shortened for a form."""
    member = model.model_fields.get(field.name)
    words = _SINCE.sub("", (member.description if member else None) or "")
    for absence, emptiness in ABSENCE.items():
        words = words.replace(absence, emptiness)
    return field.hint or words


def _pair(word: str) -> NetworkOverrideFields | str:
    """What the word says, or the word itself, which is no valid value."""
    name, separator, device = word.partition("=")
    return {"iface_id": name, "host_dev_name": device} if separator else word


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
