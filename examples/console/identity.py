"""The signed-in user, as far as this console needs it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from examples.console.records import Person
from fastapi_oidc import IdentityContext


class User(BaseModel):
    """A person with the roles that the OpenID Provider gives them."""

    model_config = ConfigDict(frozen=True)

    sub: str
    name: str
    roles: tuple[str, ...] = ()

    @property
    def is_admin(self) -> bool:
        """Whether this user may change machines, and not only see them."""
        return "admin" in self.roles

    @property
    def person(self) -> Person:
        """The user as the person of events."""
        return Person(self.sub, self.name)

    @property
    def initials(self) -> str:
        """One or two letters for the badge."""
        return "".join(word[0] for word in self.name.split()[:2]).upper()


def resolve_identity(context: IdentityContext) -> User:
    """The user behind validated provider data; UserInfo wins over the ID token."""
    claims = {**context.id_token_claims, **(context.user_info or {})}
    roles = claims.get("roles")
    return User(
        sub=str(claims["sub"]),
        name=str(claims.get("name") or claims["sub"]),
        roles=tuple(str(role) for role in roles) if isinstance(roles, list) else (),
    )
