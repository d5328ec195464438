"""Step-up: requirements for an authentication (RFC 9470, OpenID Connect Core 3.1.2.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf

from fastapi_oidc.clock import Instant
from fastapi_oidc.errors import misconfigured
from fastapi_oidc.protocol.id_token import is_recent
from fastapi_oidc.protocol.urls import written

_ACR_VALUE = re.compile(r"[!#-\[\]-~]{1,255}")


def challenge(scheme: str, members: Mapping[str, str]) -> str:
    """A challenge of `WWW-Authenticate` with quoted members (RFC 9110 11.6.1)."""
    return f"{scheme} " + ", ".join(f'{name}="{value}"' for name, value in members.items())


@dataclass(frozen=True, slots=True)
class StepUp:
    """A requirement of a guard for the authentication of a session.

    `max_age` is in seconds, None for any age. `acr_values` are the accepted classes, empty for any.
    """

    max_age: int | None = None
    acr_values: tuple[str, ...] = ()

    def is_met(self, auth_time: int | None, acr: str | None, at: Instant) -> bool:
        """Whether an authentication at `auth_time` with the class `acr` is sufficient now."""
        if self.max_age is not None and not is_recent(auth_time, self.max_age, at):
            return False
        return not self.acr_values or acr in self.acr_values

    def covers(self, other: StepUp) -> bool:
        """Whether an authentication that meets this requirement meets `other` too."""
        age = inf if self.max_age is None else self.max_age
        is_younger = other.max_age is None or age <= other.max_age
        is_as_strong = bool(self.acr_values) and {*self.acr_values} <= {*other.acr_values}
        return is_younger and (not other.acr_values or is_as_strong)

    def parameters(self) -> dict[str, str]:
        """The requirement as parameters of an authorization request or a challenge."""
        return written({"max_age": self.max_age, "acr_values": self.acr_values})

    def challenge(self) -> str:
        """The value of `WWW-Authenticate` (RFC 9470 3)."""
        members = {"error": "insufficient_user_authentication", **self.parameters()}
        return challenge("Bearer", members)


def together(requirements: Iterable[StepUp]) -> StepUp | None:
    """The requirement that is met if all of them are, None if nothing can meet all of them."""
    ages: list[int] = []
    values: tuple[str, ...] = ()
    for each in requirements:
        if each.max_age is not None:
            ages.append(each.max_age)
        if values and each.acr_values:
            values = tuple(value for value in values if value in each.acr_values)
            if not values:
                return None
        values = values or each.acr_values
    return StepUp(min(ages, default=None), values)


def recent(seconds: int) -> StepUp:
    """Require an authentication in the last `seconds`; raises ConfigurationError."""
    if type(seconds) is not int or seconds < 0:
        raise misconfigured("oidc.require_recent takes seconds: a whole number, 0 or more")
    return StepUp(max_age=seconds)


def of_class(values: tuple[str, ...]) -> StepUp:
    """Require an authentication with one of the classes `values`; raises ConfigurationError."""
    if not values or not all(map(_is_class, values)):
        raise misconfigured(
            "oidc.require_acr takes texts without spaces and quotes; several values are several "
            "arguments"
        )
    return StepUp(acr_values=values)


def _is_class(value: object) -> bool:
    return isinstance(value, str) and _ACR_VALUE.fullmatch(value) is not None
