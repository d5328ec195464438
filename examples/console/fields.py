"""One input of a form: its label, its value, and its hint."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from examples.console.library import Place
from examples.console.versions import ANY, Version
from examples.console.words import ABSENCE
from generated_vmm.model import ApiModel, Body

if TYPE_CHECKING:
    from generated_vmm import NetworkOverrideFields

Fields: TypeAlias = Mapping[str, object]
Texts: TypeAlias = Mapping[str, str]
Kind: TypeAlias = Literal["text", "number", "flag", "choice", "words", "pairs", "document", "item"]


@dataclass(frozen=True, slots=True)
class Field:
    """One input; `name` is the model's member, with dots for the members of inner models.

    `initial` is its value in an empty form, `hint` replaces the model's own description. The fields
    of a `group` form one row; an `implied` value counts if only another field of it is filled in.
    An `item` is the id of the form's device: users do not type it. `pairs` are written
    `interface=device`. A `rare` field is folded. `since` is the first release with it, if the
    model's description does not say. `places` are the folders from which a file of this console's
    machines is chosen; it is only read from if the
    flag `reads_if` is set. The monitor may lack a `deprecated` member.
    """

    name: str
    label: str
    kind: Kind = "text"
    choices: tuple[str, ...] = ()
    initial: str = ""
    hint: str = ""
    group: str = ""
    implied: str = ""
    rare: bool = False
    since: Version = ANY
    places: tuple[Place, ...] = ()
    reads_if: str = ""
    deprecated: bool = False

    @property
    def full_label(self) -> str:
        """The label with its group."""
        return f"{self.group}: {self.label}" if self.group else self.label

    def read(self, text: str) -> object:
        """The input, in the model's type."""
        if self.kind == "words":
            return text.replace(",", " ").split()
        if self.kind == "pairs":
            return [_pair(word) for word in text.replace(",", " ").split()]
        return text

    def shown_of(self, model: Body) -> str:
        """The text for the model's value."""
        value: object = model
        for name in self.name.split("."):
            value = getattr(value, name, None)
        return shown_text(value)


def as_item(fields: Iterable[Field], name: str) -> tuple[Field, ...]:
    """The same fields for an existing device, without its id."""
    return tuple(replace(one, kind="item") if one.name == name else one for one in fields)


def limits(path: str, what: str) -> tuple[Field, ...]:
    """The six inputs of a rate limiter; `what` completes "Limit of bytes …"."""
    return (
        *bucket(f"{path}.bandwidth", f"Limit of bytes {what}", "Bytes"),
        *bucket(f"{path}.ops", f"Limit of operations {what}", "Operations"),
    )


def bucket(path: str, group: str, label: str) -> tuple[Field, ...]:
    """The three inputs of one limit, in a row."""
    size = Field(f"{path}.size", label, "number", hint="0 is no limit.")
    time = Field(f"{path}.refill_time", "In milliseconds", "number", hint="1000 if empty.")
    burst = Field(f"{path}.one_time_burst", "Once on top", "number", hint="At the beginning.")
    row = (size, replace(time, implied="1000"), burst)
    return tuple(replace(one, group=group) for one in row)


def rare(fields: Iterable[Field]) -> tuple[Field, ...]:
    """The same fields, folded."""
    return tuple(replace(one, rare=True) for one in fields)


def nested(values: Mapping[str, object]) -> dict[str, object]:
    """Values by path as nested members."""
    made: dict[str, object] = {}
    for path, value in values.items():
        *outer, name = path.split(".")
        inner = made
        for step in outer:
            found = inner.setdefault(step, {})
            assert isinstance(found, dict)
            inner = found
        inner[name] = value
    return made


def member_of(fields: Fields, path: str) -> object:
    """The value at a path of members, None without one."""
    value: object = fields
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


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
        case Body():
            return value.model_dump_json(indent=2, by_alias=True, exclude_none=True)
    return "" if value is None else str(value)
