"""The identity of a user when the application has no `resolve_identity`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NoReturn, Self

from fastapi_oidc.session.model import Frozen, OIDCSession


class StandardIdentity(Frozen):
    """The profile claims of OpenID Connect Core 5.1 that most applications show."""

    sub: str
    name: str | None = None
    email: str | None = None
    email_verified: bool | None = None
    preferred_username: str | None = None
    picture: str | None = None

    if not TYPE_CHECKING:  # type checkers know the members

        def __getattr__(self, name: str) -> NoReturn:
            """Say how the identity gets what it lacks."""
            remedy = "resolve_identity returns a type of your own"
            if name in OIDCSession.model_fields:
                remedy = "the session has it, and this is session.identity"
            text = f"StandardIdentity has no {name!r}: {remedy}"
            raise AttributeError(text, name=name, obj=self)

    @classmethod
    def from_claims(cls, sub: str, *sources: Mapping[str, object]) -> Self:
        """Each claim from the last source that has it. A claim of a wrong type counts as absent."""
        found = {name: value for source in sources for name, value in source.items()}
        return cls(
            sub=sub,
            name=_text(found.get("name")),
            email=_text(found.get("email")),
            email_verified=_flag(found.get("email_verified")),
            preferred_username=_text(found.get("preferred_username")),
            picture=_text(found.get("picture")),
        )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None
