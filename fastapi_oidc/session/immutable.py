"""Which identities nobody can change, so that requests of one session may share one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cached_property
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from pydantic import BaseModel

_ATOMS: Final = frozenset(
    {
        str,
        bytes,
        int,
        float,
        complex,
        bool,
        NoneType,
        Decimal,
        date,
        datetime,
        time,
        timedelta,
        UUID,
    }
)

_CONTAINERS: Final = (dict, list, set, bytearray)
_OWN_CODE: Final = (
    "__new__",
    "__post_init__",
    "model_post_init",
    "__get_pydantic_core_schema__",
)


def is_immutable(kind: Any) -> bool:
    """Whether no value of this type, as pydantic reads it, can be changed.

    Frozen models and dataclasses of such values are among them, unless they compute something once
    and keep it, or code of their own has a say in what they hold. Of what is not known here, or
    cannot be told, it can.
    """
    try:
        return _is_immutable(kind, ())
    except Exception:
        return False  # annotations are anybody's code: names that are nowhere, odd metaclasses


def _is_immutable(kind: Any, within: tuple[type, ...]) -> bool:
    """`within` are the types that are being asked, of which `kind` is a part."""
    origin, args = get_origin(kind), get_args(kind)
    if kind is None or origin is Literal:
        return True
    if origin is Annotated:
        return _is_plain(args[1:]) and _is_immutable(args[0], within)
    if origin in (Union, UnionType, tuple, frozenset):
        return _are_immutable((each for each in args if each is not Ellipsis), within)
    if not isinstance(kind, type) or origin is not None:
        return False
    is_known = kind in _ATOMS or kind in within or issubclass(kind, Enum)
    return is_known or _is_frozen(kind, (*within, kind))


def _are_immutable(kinds: Iterable[Any], within: tuple[type, ...]) -> bool:
    return all(_is_immutable(kind, within) for kind in kinds)


def _is_frozen(kind: type, within: tuple[type, ...]) -> bool:
    bases = [base for base in kind.__mro__ if base not in (BaseModel, object)]
    if any(_has_a_say(each) for base in bases for each in vars(base).values()):
        return False
    has_own_code = any(name in vars(base) for base in bases for name in _OWN_CODE)
    if has_own_code or _has_validators(kind) or issubclass(kind, _CONTAINERS):
        return False
    if issubclass(kind, BaseModel):
        is_made_by_pydantic = not any("__init__" in vars(base) for base in bases)
        return is_made_by_pydantic and _is_frozen_model(kind, within)
    parameters = getattr(kind, "__dataclass_params__", None)
    if not dataclasses.is_dataclass(kind) or not getattr(parameters, "frozen", False):
        return False
    return _are_immutable(get_type_hints(kind, include_extras=True).values(), within)


def _is_frozen_model(kind: type[BaseModel], within: tuple[type, ...]) -> bool:
    config, fields = kind.model_config, kind.model_fields.values()
    if not config.get("frozen") or config.get("extra") == "allow" or kind.__private_attributes__:
        return False
    if not all(_is_plain(field.metadata) for field in fields):
        return False
    return _are_immutable((field.annotation for field in fields), within)


def _has_a_say(attribute: object) -> bool:
    """Whether this attribute of a class keeps what it computes, or is a validator of pydantic's
    (on a dataclass of the standard library)."""
    return isinstance(attribute, cached_property) or hasattr(attribute, "decorator_info")


def _has_validators(kind: type) -> bool:
    made = getattr(kind, "__pydantic_decorators__", None)
    return made is not None and bool(
        made.field_validators or made.model_validators or made.validators or made.root_validators
    )


def _is_plain(metadata: Iterable[Any]) -> bool:
    """Whether none of it tells pydantic to read a value in a way of its own."""
    return not any(hasattr(each, "__get_pydantic_core_schema__") for each in metadata)
