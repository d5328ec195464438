"""The signed-in user, and what they may do with which machines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final

from pydantic import BaseModel, ConfigDict

from examples.console.records import Person
from examples.console.settings import ROLES, Right, RoleSettings
from fastapi_oidc import IdentityContext

RIGHTS: Final[tuple[Right, ...]] = ("view", "operate", "administer")
"""Each contains those before it."""
WHO: Final[dict[Right, str]] = {
    "view": "a viewer",
    "operate": "an operator",
    "administer": "an admin",
}
"""Who has a right, in words."""


class User(BaseModel):
    """A person with the roles that the OpenID Provider gives them.

    `viewer`, `operator` and `admin` are for all machines; `operator:web-*` is for those whose names
    match the pattern. Other roles mean nothing here.
    """

    model_config = ConfigDict(frozen=True)

    sub: str
    name: str
    roles: tuple[str, ...] = ()

    def may(self, right: Right, machine: str = "") -> bool:
        """Whether the user has the right for a machine; without one, for all."""
        enough = RIGHTS[RIGHTS.index(right) :]
        parts = (role.partition(":") for role in self.roles)
        return any(
            ROLES.get(role) in enough and (not names or fnmatchcase(machine, names))
            for role, _, names in parts
        )

    @property
    def title(self) -> str:
        """The strongest role that the user has for any machine."""
        names = [role.partition(":")[0] for role in self.roles]
        return next((name for name in ("admin", "operator") if name in names), "viewer")

    @property
    def person(self) -> Person:
        """The user as the person of events."""
        return Person(self.sub, self.name)

    @property
    def initials(self) -> str:
        """One or two letters for the badge."""
        return "".join(word[0] for word in self.name.split()[:2]).upper()


def identity_resolver(settings: RoleSettings) -> Callable[[IdentityContext], User]:
    """A function that returns the user behind validated provider data.

    UserInfo wins over the ID token.
    """

    def resolve_identity(context: IdentityContext) -> User:
        claims = {**context.id_token_claims, **(context.user_info or {})}
        name = str(claims.get("name") or claims["sub"])
        user = User(sub=str(claims["sub"]), name=name, roles=tuple(roles_in(claims, settings)))
        if settings.everybody_views and not user.may("view"):
            return user.model_copy(update={"roles": (*user.roles, "viewer")})
        return user

    return resolve_identity


def roles_in(claims: Mapping[str, object], settings: RoleSettings) -> Iterator[str]:
    """The roles that the claim gives; a claim that is a text is one value."""
    found: object = claims
    for name in [settings.claim] if settings.claim in claims else settings.claim.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    for value in [found] if isinstance(found, str) else found if isinstance(found, list) else []:
        yield from [str(value)] if settings.given is None else settings.given.get(str(value), ())
