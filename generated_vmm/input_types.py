"""The types of arguments for which the monitor takes a list or any JSON.

The types are for callers; the generated models convert the values to JSON types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Protocol, TypeAlias, TypeVar, overload

from pydantic import AfterValidator, BeforeValidator, JsonValue

from generated_vmm.model import AnsweredAs

Item = TypeVar("Item", covariant=True)

DEEPEST = 128  # levels; the monitor reads no more
MOST_MIB = 64 * 1024 * 1024  # 64 TiB; the monitor has no limit of its own

if TYPE_CHECKING:

    class Items(Protocol[Item]):
        """Any sequence except text and bytes, which type checkers also accept as sequences."""

        def __contains__(self, value: object, /) -> bool: ...
        def __iter__(self) -> Iterator[Item]: ...
        def __len__(self) -> int: ...
        @overload
        def __getitem__(self, index: int, /) -> Item: ...
        @overload
        def __getitem__(self, index: slice, /) -> Sequence[Item]: ...

    Json: TypeAlias = Mapping[str, "Json"] | Items["Json"] | str | float | bool | None
else:
    Items, Json = Sequence, JsonValue


def plain_json(value: object, levels: int = DEEPEST) -> object:
    """The value, with mappings as dicts and sequences as lists, at any depth."""
    if levels == 0:
        return value
    if isinstance(value, Mapping):
        return {key: plain_json(member, levels - 1) for key, member in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview):
        return [plain_json(element, levels - 1) for element in value]
    return value


def _require_unique(values: list[Item]) -> list[Item]:
    if any(value in values[:index] for index, value in enumerate(values)):
        raise ValueError("the list has an element twice")
    return values


Unique = AfterValidator(_require_unique)
"""Annotation of a list: no two elements are equal."""


def _require_mebibytes(value: int) -> int:
    if value > MOST_MIB:
        raise ValueError(
            f"the unit is MiB: {value} MiB are {value >> 20} TiB, more than any host has; "
            f"{value} bytes are {value >> 20}"
        )
    return value


InMebibytes = AfterValidator(_require_mebibytes)
"""Annotation of a number of MiB: not the bytes of any memory that a guest can have."""

JsonObject: TypeAlias = Annotated[
    dict[str, JsonValue], BeforeValidator(plain_json), AnsweredAs(dict[str, JsonValue])
]
