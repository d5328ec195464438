"""Forms made from the models of the monitor client, whose fields give help texts and limits."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from pydantic import BaseModel, ValidationError

from examples.console.failures import invalid
from examples.console.library import Place
from examples.console.words import HINTS
from generated_vmm import Drive
from generated_vmm.machines import Definition
from generated_vmm.model import ApiModel

NAME: Final = re.compile(r"[A-Za-z0-9_]+")


@dataclass(frozen=True, slots=True)
class Section:
    """The inputs for one model.

    `member` is that of a machine's configuration which has the model, or a list of such with the
    ids `id_name`. `current` finds the present model in a definition, for the form's item. `fixed`
    are members that are not inputs. An `optional` section without input is left out.
    """

    key: str
    title: str
    model: type[ApiModel]
    fields: tuple[Field, ...]
    member: str = ""
    id_name: str = ""
    current: Callable[[Definition, str], BaseModel | None] | None = None
    fixed: Fields = field(default_factory=dict)
    optional: bool = False

    def __post_init__(self) -> None:
        """Drops fields that a client for an older release lacks. TypeError for unknown names."""
        names = {*(one.name for one in self.fields), *self.fixed}
        if is_known(self.model):
            require(self.model, names)
        known = (one for one in self.fields if one.name in self.model.model_fields)
        object.__setattr__(self, "fields", tuple(known))

    def rows(self, *, rare: bool) -> list[Field]:
        """The visible inputs."""
        return [one for one in self.fields if one.rare is rare and one.kind != "item"]

    @property
    def item_field(self) -> str:
        """The input with the id of the device, as `key.field`; empty without one."""
        ids = (f"{self.key}.{one.name}" for one in self.fields if one.kind == "item")
        return next(ids, "")

    def hint(self, field: Field) -> str:
        """The field's help text, or the model's description."""
        own = HINTS.get(f"{self.key}.{field.name}")
        return own or self.model.model_fields[field.name].description or ""

    def found(self, definition: Definition, item: str) -> BaseModel | None:
        """The present model, if there is one."""
        if self.current is not None:
            return self.current(definition, item)
        value = getattr(definition.configuration, self.member, None) if self.member else None
        if not self.id_name:
            return value if isinstance(value, BaseModel) else None
        return next((one for one in value or () if getattr(one, self.id_name) == item), None)

    def write(self, definition: Definition, fields: Fields) -> Definition:
        """The definition with the input; members that are no inputs stay. Raises Failure."""
        name = str(fields.get(self.id_name, ""))
        before = self.found(definition, name)
        inputs = {one.name: one.kind for one in self.fields}
        others = getattr(definition.configuration, self.member) or [] if self.id_name else []
        taken = [getattr(one, self.id_name) for one in others if one is not before]
        if name in taken or (before is not None and inputs.get(self.id_name) == "text"):
            raise invalid({self._input_of(self.id_name): f"There is a device called {name}."})
        if self.id_name and not NAME.fullmatch(name):
            why = "A name has letters, digits and underscores."
            raise invalid({self._input_of(self.id_name): why})
        kept = before.model_dump(exclude_unset=True, exclude=set(inputs)) if before else {}
        model = self.model.model_validate({**fields, **kept})
        if isinstance(model, Drive) and not (model.path_on_host or model.socket):
            raise invalid({self._input_of("path_on_host"): "Choose a disk image."})
        if not self.id_name:
            return _with(definition, self.member, model)
        known = [model if one is before else one for one in others]
        return _with(definition, self.member, known if before else [*known, model])

    def _input_of(self, name: str) -> str:
        """The input of a member, or the first one if the member is no input."""
        names = [one.name for one in self.fields]
        return f"{self.key}.{name if name in names else names[0]}"

    def parse(self, form: Texts) -> Fields | None:
        """The members of the model, each in its type; empty inputs are not set. Raises Failure.

        None for an optional section without input.
        """
        typed = {one: form.get(f"{self.key}.{one.name}", "").strip() for one in self.fields}
        given = {one.name: one.read(text) for one, text in typed.items() if text}
        if self.optional and not given:
            return None
        try:
            # A form has texts only, so numbers and flags are read from texts here and only here.
            model = self.model.model_validate({**self.fixed, **given}, strict=False)
        except ValidationError as error:
            raise invalid(self._sentences(error)) from error
        return model.model_dump(exclude_unset=True)

    def _sentences(self, error: ValidationError) -> dict[str, str]:
        """The first fault of each field, in words; of the first field if it is of none."""
        sentences: dict[str, str] = {}
        for fault in error.errors(include_url=False, include_input=False):
            first, *path = map(str, fault["loc"])
            at = next((one for one in self.fields if one.name == first), self.fields[0])
            is_pattern = fault["type"] == "string_pattern_mismatch"  # the hint says it in words
            why = self.hint(at) if is_pattern else f"{fault['msg']}."
            sentences.setdefault(f"{self.key}.{at.name}", ": ".join([*path, why]))
        return sentences

    def values(self, definition: Definition | None, suggestions: Texts, item: str = "") -> Texts:
        """A text for each `key.field`: the present values, else the suggestions."""
        current = self.found(definition, item) if definition else None
        values: dict[str, str] = {}
        for one in self.fields:
            name = f"{self.key}.{one.name}"
            suggested = item if one.kind == "item" else suggestions.get(name, one.initial)
            values[name] = suggested if current is None else one.shown_of(current)
        return values


def _with(definition: Definition, member: str, value: object) -> Definition:
    configuration = definition.configuration.model_copy(update={member: value})
    return definition.replace(configuration=configuration)


def without(definition: Definition, section: Section, item: str) -> Definition:
    """The definition without a device of the section's list."""
    devices: Sequence[BaseModel] = getattr(definition.configuration, section.member) or []
    left = [one for one in devices if getattr(one, section.id_name) != item]
    return _with(definition, section.member, left)


def is_known(model: type[ApiModel]) -> bool:
    """Whether the client has the model: one for an older release has a name without members."""
    return not hasattr(model, "since")


def require(model: type[ApiModel], names: Iterable[str]) -> None:
    """Raises TypeError for members that the model neither has nor gets in a newer release.

    A client for an older monitor knows which members come later: those are only not offered.
    """
    known = {*model.model_fields, *getattr(model, "later_fields", {})}
    if lacking := sorted(set(names) - known):
        raise TypeError(f"{model.__name__} has no {', '.join(lacking)}")


Fields: TypeAlias = Mapping[str, object]
Texts: TypeAlias = Mapping[str, str]
Kind: TypeAlias = Literal["text", "number", "flag", "choice", "words", "pairs", "document", "item"]


@dataclass(frozen=True, slots=True)
class Field:
    """One input of the model's member `name`.

    `initial` is its value in an empty form. `rare` fields are folded. A file of one of the
    `places` is chosen from a list. The `item` of a form is the device that it is about.
    """

    name: str
    label: str
    kind: Kind = "text"
    choices: tuple[str, ...] = ()
    initial: str = ""
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
