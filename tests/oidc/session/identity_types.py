"""Types of identities: those that nobody can change, and each way in which one can be changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from functools import cached_property
from typing import Annotated, Any, NamedTuple
from uuid import UUID

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    PrivateAttr,
    PydanticDeprecatedSince20,
    SkipValidation,
    field_validator,
    model_validator,
    root_validator,
    validator,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass


class Role(Enum):
    READER = "reader"


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)
    name: str
    since: datetime | None = None
    roles: frozenset[Role] = frozenset()
    manager: Frozen | None = None


class Child(Frozen):
    team: tuple[UUID, ...] = ()


class Open(BaseModel):
    name: str


class HasList(Frozen):
    groups: list[str] = []


class HasAnything(Frozen):
    extra: Any = None


class TakesMore(Frozen):
    model_config = ConfigDict(frozen=True, extra="allow")


class HasPrivate(Frozen):
    _rows: list[str] = PrivateAttr(default_factory=list)


class Computes(Frozen):
    @cached_property
    def rows(self) -> list[str]:
        return []


class Validates(Frozen):
    @field_validator("name", mode="plain")
    @classmethod
    def listed(cls, value: Any) -> Any:
        return [value]


class ValidatesAll(Frozen):
    @model_validator(mode="before")
    @classmethod
    def listed(cls, values: Any) -> Any:
        return values


with pytest.warns(PydanticDeprecatedSince20):

    class ValidatesAsEver(Frozen):
        @validator("name")
        @classmethod
        def listed(cls, value: Any) -> Any:
            return [value]


with pytest.warns(PydanticDeprecatedSince20):

    class ValidatesAllAsEver(Frozen):
        @root_validator(pre=True)
        @classmethod
        def listed(cls, values: Any) -> Any:
            return values


class SetsUp(Frozen):
    def model_post_init(self, context: Any, /) -> None:
        object.__setattr__(self, "name", ["a list"])


class Unread(Frozen):
    groups: Annotated[tuple[str, ...], SkipValidation] = ()


class ReadOtherwise(Frozen):
    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any, /) -> Any:
        return handler(source)


@dataclass(frozen=True)
class DataThatSetsUp:
    roles: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "roles", list(self.roles))


class Makes(Frozen):
    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        object.__setattr__(self, "name", ["a list"])


class IsMade(Frozen):
    def __new__(cls, **_: Any) -> IsMade:
        return super().__new__(cls)


@dataclass(frozen=True)
class DataThatValidates:
    roles: frozenset[str]

    @field_validator("roles", mode="plain")
    @classmethod
    def listed(cls, value: Any) -> Any:
        return list(value)


@pydantic_dataclass(frozen=True)
class ReadData:
    roles: frozenset[str]


@pydantic_dataclass(frozen=True)
class ReadDataThatValidates(ReadData):
    @field_validator("roles", mode="plain")
    @classmethod
    def listed(cls, value: Any) -> Any:
        return list(value)


@dataclass(frozen=True)
class FrozenDict(dict[str, str]):
    name: str


@dataclass
class OpenData:
    name: str


@dataclass(frozen=True)
class DataOfOpen:
    of: Open


@dataclass(frozen=True)
class Tree:
    name: str
    branches: tuple[Tree, ...] = ()


@dataclass(frozen=True)
class UnreadData:
    groups: Annotated[tuple[str, ...], SkipValidation] = ()


@dataclass(frozen=True, slots=True)
class DataOfList:
    roles: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Unresolvable:
    of: Nowhere  # type: ignore[name-defined]  # noqa: F821 - that is the point


class Refusing(type):
    def __subclasscheck__(cls, other: type) -> bool:
        raise RuntimeError("no type that anybody has seen")

    def __hash__(cls) -> int:
        raise RuntimeError("nor in a set")


class Odd(metaclass=Refusing):
    pass


class Pair(NamedTuple):
    names: list[str]
