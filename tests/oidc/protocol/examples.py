"""A valid OP, client and moment, and how to break one thing of a valid message."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import TypeAlias

import pytest
from _pytest.mark.structures import ParameterSet

from fastapi_oidc.clock import Instant
from fastapi_oidc.errors import Code, OIDCError
from fastapi_oidc.protocol.claims import TrustedIssuer
from fastapi_oidc.protocol.encoding import JSON

ISSUER = "https://op.test/"
TRUSTED = TrustedIssuer(ISSUER)
CLIENT_ID = "client-1"
NOW = 1_800_000_000
AT = Instant(NOW, drift=30)


class Absent(Enum):
    """The change that takes a member away."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT
Changes: TypeAlias = Mapping[str, JSON | Absent]
Rules: TypeAlias = Mapping[Code, Sequence[Changes]]
"""What breaks each rule, by the code of its refusal."""

ODD_VALUES: tuple[JSON, ...] = (None, True, 1.5, -1, "", [], [None], {}, 10**400)
"""No claim with a rule of its own may be one of these."""


def changed(example: Mapping[str, JSON], changes: Changes) -> dict[str, JSON]:
    """`example` with some members replaced, added or taken away."""
    members: dict[str, JSON | Absent] = {**example, **changes}
    return {name: value for name, value in members.items() if not isinstance(value, Absent)}


def changes(name: str, *values: JSON | Absent) -> list[Changes]:
    """Changes of one member: to each value."""
    return [{name: value} for value in values]


def breaking(rules: Rules) -> list[tuple[Changes, Code]]:
    """Each change, with the code of the rule that it breaks."""
    return [(change, code) for code, changes in rules.items() for change in changes]


def each(groups: Mapping[str, Sequence[object]]) -> list[ParameterSet]:
    """The values of all groups; a test has the name of its group."""
    return [
        pytest.param(value, id=f"{group} {number}")
        for group, values in groups.items()
        for number, value in enumerate(values)
    ]


@contextmanager
def refused(code: Code, kind: type[OIDCError]) -> Iterator[None]:
    """The block raises this kind of error with this code."""
    with pytest.raises(kind) as caught:
        yield
    assert caught.value.code is code
