"""What every generated model shares: strict about what is sent, tolerant about what is answered."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Self, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    RootModel,
    TypeAdapter,
)
from pydantic_core import CoreSchema, core_schema

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue

Item = TypeVar("Item")
Root = TypeVar("Root")
# Text is looked at only where its length is limited: then half a surrogate pair, which JSON cannot
# hold and Python makes of a file name that is no UTF-8, is refused like any wrong value.
TEXT = ConfigDict(str_min_length=0)

_ANY_JSON: TypeAdapter[object] = TypeAdapter(object)


@dataclass(frozen=True, slots=True)
class AnsweredAs:
    """Annotation: a caller's value is checked as annotated, a monitor's only as `plain`.

    A newer monitor may answer with a value its description did not have: that stops no client.
    """

    plain: type

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """JSON is what a monitor said, Python values are what a caller wants to send."""
        return core_schema.json_or_python_schema(
            json_schema=handler.generate_schema(self.plain), python_schema=handler(source)
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """A schema made from a model shows the values that may be sent."""
        if schema["type"] == "json-or-python":
            return handler(schema["python_schema"])
        return handler(schema)


def _text_of_path(value: object) -> object:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


HostPath: TypeAlias = Annotated[str, BeforeValidator(_text_of_path), AnsweredAs(str)]
"""A path of the host: a caller gives text or an `os.PathLike`, the model holds text."""


class Body(BaseModel):
    """Reading and writing of JSON; unset fields and None are never sent."""

    ids_in_path: ClassVar[tuple[str, ...]] = ()
    """The fields that the path of a call repeats."""

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """As `model_validate`: JSON that a caller gives is checked like any value of a caller.

        Raises `pydantic.ValidationError`.
        """
        return cls.model_validate(_ANY_JSON.validate_json(json_data), **options)

    @classmethod
    def from_answer(cls, content: bytes) -> Self:
        """The model in the body of a monitor's answer.

        Unknown fields are ignored, null is None, unknown enum values and numbers outside the
        described range are kept. Raises `pydantic.ValidationError` when the content is not JSON, a
        required field is missing or a type is wrong.
        """
        made: Self = cls.__pydantic_validator__.validate_json(content, extra="ignore")
        return made

    def to_json(self) -> bytes:
        """The body to send: what was set, under the monitor's names. None counts as not set."""
        return self.__pydantic_serializer__.to_json(
            self, by_alias=True, exclude_unset=True, exclude_none=True
        )


class ApiModel(Body):
    """Base of the generated models with fields of their own.

    Values are checked when the model is made and when a field is assigned: no unknown field, no
    conversion between types, enums and ranges as described (`pydantic.ValidationError`).
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        **TEXT,
        extra="forbid",
        protected_namespaces=(),  # codegen renames the fields that would hide anything
        strict=True,
        validate_assignment=True,
        validate_by_alias=True,
        validate_by_name=True,
    )


class ApiDocument(Body, RootModel[Root], Generic[Root]):
    """Base of the generated models that are free-form JSON, kept in `root`; None in it is null."""

    model_config: ClassVar[ConfigDict] = ConfigDict(**TEXT, allow_inf_nan=False, strict=True)


@cache
def list_of(item: type[Item]) -> Callable[[bytes], list[Item]]:
    """What reads the body of an answer that is a list; tolerant as `Body.from_answer`."""
    reader = TypeAdapter(list[item])  # type: ignore[valid-type]  # a value to mypy

    def read(content: bytes) -> list[Item]:
        found: list[Item] = reader.validate_json(content, extra="ignore")
        return found

    return read


def no_answer(content: bytes) -> None:
    """Reads the body of an answer that has none."""
