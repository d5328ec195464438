"""Identities that requests may share are those that nobody can change."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, PlainValidator, SkipValidation

from fastapi_oidc import StandardIdentity
from fastapi_oidc.session.immutable import is_immutable
from tests.oidc.session.examples import User
from tests.oidc.session.identity_types import (
    Child,
    Computes,
    DataOfList,
    DataOfOpen,
    DataThatSetsUp,
    DataThatValidates,
    Frozen,
    FrozenDict,
    HasAnything,
    HasList,
    HasPrivate,
    IsMade,
    Makes,
    Odd,
    Open,
    OpenData,
    Pair,
    ReadData,
    ReadDataThatValidates,
    ReadOtherwise,
    Role,
    SetsUp,
    TakesMore,
    Tree,
    Unread,
    UnreadData,
    Unresolvable,
    Validates,
    ValidatesAll,
    ValidatesAllAsEver,
    ValidatesAsEver,
)


@pytest.mark.parametrize(
    "kind",
    [
        *(
            str,
            int,
            bool,
            None,
            datetime,
            Role,
            str | None,
            Annotated[int, Field(gt=0)] | None,
            Literal["a"],
        ),
        *(
            tuple[str, ...],
            frozenset[int],
            Annotated[str, Field(max_length=9)],
            Annotated[Frozen, Field(description="anybody")],
            tuple[Frozen, User],
        ),
        *(StandardIdentity, User, Frozen, Child, Tree, ReadData),
    ],
    ids=str,
)
def test_what_nobody_can_change_is_known(kind: Any) -> None:
    assert is_immutable(kind)


@pytest.mark.parametrize(
    "kind",
    [
        *(dict, list, set, tuple, object, Any, bytearray, type, Pair),
        *(list[str], dict[str, str], Mapping[str, str], tuple[list[str], ...], str | list[str]),
        *(Open, HasList, HasAnything, TakesMore, HasPrivate, Computes),
        *(Validates, ValidatesAll, ValidatesAsEver, ValidatesAllAsEver, SetsUp, Unread),
        *(ReadOtherwise, Makes, IsMade, DataThatSetsUp, DataThatValidates, ReadDataThatValidates),
        FrozenDict,
        *(Annotated[str, SkipValidation], Annotated[str, PlainValidator(list)]),
        Annotated[list[str], Field(max_length=9)],
        *(OpenData, DataOfOpen, DataOfList, UnreadData, tuple[Open, ...], Open | None),
    ],
    ids=str,
)
def test_all_else_counts_as_changeable(kind: Any) -> None:
    assert not is_immutable(kind)


@pytest.mark.parametrize(
    "kind",
    [dict[str, Annotated[str, {"unhashable": 1}]], Unresolvable, tuple[Unresolvable], Odd, "User"],
    ids=str,
)
def test_what_cannot_be_told_counts_as_changeable_and_is_no_error(kind: Any) -> None:
    assert not is_immutable(kind)


def test_metadata_of_an_annotation_may_be_anything() -> None:
    assert is_immutable(Annotated[str, {"unhashable": 1}])
