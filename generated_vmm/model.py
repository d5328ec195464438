"""The base of generated models: strict about requests, tolerant about responses."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    Self,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
)

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    RootModel,
    TypeAdapter,
    ValidationInfo,
    field_validator,
)
from pydantic_core import CoreSchema, core_schema

from generated_vmm.misuse import Word, require_replaced

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

    A newer monitor may return a value that is not in the description: clients accept it.
    """

    plain: type

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """JSON comes from a monitor; Python values come from a caller."""
        answered, asked = handler.generate_schema(self.plain), handler(source)
        if get_origin(source) is not Literal:
            return core_schema.json_or_python_schema(answered, asked)
        word = partial(Word.of, get_args(source))
        return core_schema.json_or_python_schema(
            core_schema.no_info_after_validator_function(word, answered),
            asked,
            serialization=core_schema.plain_serializer_function_ser_schema(_plain),
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """The JSON schema of a model shows the values that may be sent."""
        if schema["type"] == "json-or-python":
            return handler(schema["python_schema"])
        return handler(schema)


def _plain(value: object) -> object:
    return str(value) if isinstance(value, str) else value


def _text_of_path(value: object) -> object:
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    require_replaced("it", path)
    return path


HostPath: TypeAlias = Annotated[str, BeforeValidator(_text_of_path), AnsweredAs(str)]
"""A path of the host: a caller passes text or an `os.PathLike`, the model holds text."""


class Body(BaseModel):
    """Reads and writes JSON; unset fields and None are never sent."""

    ids_in_path: ClassVar[tuple[str, ...]] = ()
    """The fields that are in the path of a call too."""

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """As `model_validate`: JSON from a caller is checked like any value from a caller.

        Raises `pydantic.ValidationError`.
        """
        return cls.model_validate(_ANY_JSON.validate_json(json_data), **options)

    @classmethod
    def from_answer(cls, content: bytes) -> Self:
        """The model in the body of a monitor's response.

        Unknown fields are ignored, null is None, and unknown enum values and numbers outside the
        described range are accepted. Raises `pydantic.ValidationError` if the content is not JSON,
        a required field is missing, or a type is wrong.
        """
        made: Self = cls.__pydantic_validator__.validate_json(content, extra="ignore")
        return made

    def to_json(self) -> bytes:
        """The body to send: the fields that are set, under the monitor's names. None is not set."""
        return self.__pydantic_serializer__.to_json(
            self, by_alias=True, exclude_unset=True, exclude_none=True
        )


class ApiModel(Body):
    """Base of the generated models with fields of their own.

    Values are checked when the model is created and when a field is assigned: unknown fields, wrong
    types, and values outside the described enums and ranges raise `pydantic.ValidationError`.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        **TEXT,
        extra="forbid",
        protected_namespaces=(),  # codegen renames fields that would hide a member
        ser_json_bytes="base64",
        strict=True,
        validate_assignment=True,
        validate_by_alias=True,
        validate_by_name=True,
        val_json_bytes="base64",
    )


def two_files(*fields: str) -> object:
    """A rule of a model: the monitor would write one content over the other in one file."""

    def require(value: object, known: ValidationInfo) -> object:
        for field in fields:
            if field != known.field_name and known.data.get(field) == value:
                both = f"{field} and {known.field_name} are both {value!r}"
                raise ValueError(f"{both}: they must be two files")
        return value

    return field_validator(*fields)(require)


class ApiDocument(Body, RootModel[Root], Generic[Root]):
    """Base of the generated models that are free-form JSON, kept in `root`; None in it is null."""

    model_config: ClassVar[ConfigDict] = ConfigDict(**TEXT, allow_inf_nan=False, strict=True)


@cache
def list_of(item: type[Item]) -> Callable[[bytes], list[Item]]:
    """A function that reads a response body that is a list; as tolerant as `Body.from_answer`."""
    reader = TypeAdapter(list[item])  # type: ignore[valid-type]  # a value to mypy

    def read(content: bytes) -> list[Item]:
        found: list[Item] = reader.validate_json(content, extra="ignore")
        return found

    return read


def no_answer(content: bytes) -> None:
    """Reads the body of a response that has none."""
