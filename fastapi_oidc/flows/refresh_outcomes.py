"""How a refresh ends, and when that is the end of the session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeAlias

from fastapi_oidc.errors import Code, OIDCError, ProtocolViolation, SessionError
from fastapi_oidc.protocol.refusal import RefusedGrant
from fastapi_oidc.session.keeper import Kept
from fastapi_oidc.session.model import Identity, OIDCSession


@dataclass(frozen=True, slots=True)
class Renewed(Generic[Identity]):
    """The session goes on as `kept`."""

    kept: Kept[Identity]


@dataclass(frozen=True, slots=True)
class Refused:
    """The provider, a rule, the application or the user ended the session."""

    code: Code
    because: str = ""


@dataclass(frozen=True, slots=True)
class Postponed:
    """Nothing was decided; `pause` seconds lie before the next attempt, at `retry_at`.

    `is_announced`: an event tells of the attempt that this request waited for.
    """

    pause: int
    retry_at: int
    because: str = ""
    is_announced: bool = False


class Unmade(Exception):
    """What was to take the place of a refresh failed; nothing was decided of the session."""


Outcome: TypeAlias = Renewed[Identity] | Refused | Postponed


def is_final(error: OIDCError) -> bool:
    """Whether the provider, a rule or the application (by a SessionError) ended the session."""
    if isinstance(error, SessionError):
        return not error.is_outage
    if isinstance(error, ProtocolViolation):
        # The key may be published later than it signs (OpenID Connect Core 10.1.1). A clock that is
        # behind says nothing of the session: a process whose clock is right takes the same answer.
        return error.code is not Code.JWS_KEY_MISSING and not error.is_early
    return isinstance(error, RefusedGrant)


def name_of(session: OIDCSession[Identity]) -> str:
    """Names one refresh of one session: the next one has another generation."""
    return f"{session.id}.{session.generation}"
