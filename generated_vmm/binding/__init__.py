"""From a caller's arguments (a model, a mapping, keyword arguments) to the model that is sent."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from inspect import isclass
from typing import Any, NoReturn, TypeAlias, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from generated_vmm.model import Body

Fields: TypeAlias = Mapping[str, object]
Model = TypeVar("Model", bound=Body)
Method = TypeVar("Method", bound=Callable[..., object])

ID = re.compile(r"[A-Za-z0-9_]+")


def require_id(name: str, value: object) -> str:
    """The id, if the monitor accepts it (letters, digits, `_`); else raises ValueError."""
    if not isinstance(value, str) or ID.fullmatch(value) is None:
        raise ValueError(f"{name} {value!r} may only have letters, digits and underscores")
    return value


def for_each_id(method: Method) -> Method:
    """A method that takes an id: `vm.drive.set(...)` is told that it comes first."""
    part = f'{method.__name__}("...")'

    def without_id(*_: object, **__: object) -> NoReturn:
        raise TypeError(f"{part} needs the id: vm.{part}.set(...), where vm is the client")

    for call in ("set", "update", "get"):
        setattr(method, call, without_id)
    return method


def _model_at(place: tuple[int | str, ...], model: type[BaseModel]) -> type[BaseModel]:
    """The model at a place, or around what is there."""
    for name in place:
        found: Any = getattr(model.model_fields.get(str(name)), "annotation", None)
        kinds = [each for each in (found, *get_args(found)) if isclass(each)]
        model = next((each for each in kinds if issubclass(each, BaseModel)), model)
    return model


def as_model(
    model: type[Model],
    body: Model | Fields | None,
    fields: Fields,
    *more: object,
    **ids_in_path: str,
) -> Model:
    """The model to send; the ids of the path are filled in where the model has them too.

    Raises `pydantic.ValidationError` for values that the model refuses, ValueError for an id that
    contradicts the path, TypeError for a body and keyword arguments at once, and for `more` bodies.
    """
    if more:
        names = "=..., ".join(model.model_fields)
        raise TypeError(f"{model.__name__} is passed by keywords: {names}=...")
    if body is not None and fields:
        raise TypeError(f"{model.__name__}: pass the body or keyword arguments, not both")
    ids = {name: ids_in_path[name] for name in model.ids_in_path if name in ids_in_path}
    if isinstance(body, model):
        made = body
    else:
        given = fields if body is None else body
        try:
            made = model.model_validate({**ids, **given} if isinstance(given, Mapping) else given)
        except ValidationError as error:
            refusing = _model_at(error.errors()[0]["loc"], model)
            error.add_note(f"{refusing.__name__} has {', '.join(refusing.model_fields)}")
            raise
    for name, value in ids.items():
        if getattr(made, name) != value:
            raise ValueError(f"{name} is {getattr(made, name)!r}, but the path has {value!r}")
    return made
