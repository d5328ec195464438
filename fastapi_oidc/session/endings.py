"""Which sessions are over: records of endings, and the keys under which they are looked up."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Final, Literal, NamedTuple, Self, TypeAlias, TypeVar

from pydantic import Field, model_validator

from fastapi_oidc.session.model import (
    EndReason,
    Frozen,
    Identity,
    OIDCSession,
    PreviousSession,
)

MINIMUM_RECORD_LIFETIME: Final = 30 * 24 * 3600
"""Seconds; so that a shorter `session_lifetime` brings no ended session back to life."""

Key: TypeAlias = tuple[str, ...]
Base = TypeVar("Base")
Maker: TypeAlias = Literal["provider", "application"]
MAKERS: Final[tuple[Maker, Maker]] = ("provider", "application")


def _usual_reason(fields: Mapping[str, object]) -> EndReason:
    return "ended_by_provider" if fields.get("made_by") == "provider" else "revoked"


class RevocationRecord(Frozen):
    """The end of one or more sessions; names a `session_id`, a `sid` or a `sub`.

    A `session_id` ends that session. Otherwise it ends every session of `issuer` and `client_id`
    with this `sid` (and this `sub` when both are given), or with this `sub`, that is not younger
    than the record: of a provider's record (Back-Channel Logout 1.0, 2.6) `issued_at` is compared
    with `authenticated_at`, both by the provider's clock; of the application's with `created_at`,
    both by our own. A provider's record with `sid` and `sub` also ends the sessions of that `sub`
    that have no `sid`. Forgotten after `expires_at`, when no such session can be alive any more.

    `reason` defaults to "ended_by_provider" for a provider's record, which has no other, and to
    "revoked" for one of the application. Raises ValueError when it names nothing, or too much.
    """

    issuer: str
    client_id: str
    sid: str | None = None
    sub: str | None = None
    session_id: str | None = None
    jti: str = ""
    issued_at: int
    expires_at: int
    made_by: Maker = "provider"
    reason: EndReason = Field(default_factory=_usual_reason)

    @model_validator(mode="after")
    def _names_one(self) -> Self:
        at_provider = self.sid is not None or self.sub is not None
        if at_provider == (self.session_id is not None):
            raise ValueError("a record names a session_id, or else a sid, a sub or both")
        if self.made_by == "provider" and self.reason != "ended_by_provider":
            raise ValueError("a provider's record has no other reason than ended_by_provider")
        return self


class Ending(NamedTuple):
    """What is kept under one key."""

    issued_at: int
    reason: EndReason

    def or_later(self, other: Ending | None) -> Ending:
        """The one that reaches further."""
        return self if other is None or other.issued_at < self.issued_at else other


def expiry_of_record(now: int, session_lifetime: int) -> int:
    """When a record made at `now` may be forgotten, in whatever way `session_lifetime` changes."""
    return now + max(session_lifetime, MINIMUM_RECORD_LIFETIME)


def ending_of(
    session: OIDCSession[Identity] | PreviousSession, reason: EndReason, now: int
) -> RevocationRecord:
    """The record that ends this one session, kept for as long as a copy of it could open."""
    return RevocationRecord(
        issuer=session.issuer,
        client_id=session.client_id,
        session_id=session.id,
        issued_at=now,
        expires_at=session.expires_at,
        made_by="application",
        reason=reason,
    )


def keys_of_record(record: RevocationRecord) -> tuple[Key, ...]:
    """The keys under which `record` is kept, so that looking it up needs no search."""
    if record.session_id is not None:
        return (_session_key(record.session_id),)
    client = (record.issuer, record.client_id)
    if record.sid is None:
        return ((*client, "sub", record.sub or ""),)
    key = (*client, "sid", record.sid, record.sub or "")
    if record.sub is None or record.made_by == "application":
        return (key,)
    return (key, (*client, "sub", record.sub, "without sid"))


def keys_of_session(session: OIDCSession[Identity]) -> tuple[Key, ...]:
    """The keys of all records that could cover `session`: that of its id first."""
    client = (session.issuer, session.client_id)
    of_all = (_session_key(session.id), (*client, "sub", session.sub))
    if session.sid is None:
        return (*of_all, (*client, "sub", session.sub, "without sid"))
    return (
        *of_all,
        (*client, "sid", session.sid, ""),
        (*client, "sid", session.sid, session.sub),
    )


def places(keys: Sequence[Base]) -> list[tuple[Base, Maker]]:
    """Where to look for the endings of a session with these keys (or digests of them), in order."""
    of_session, *others = keys
    return [(of_session, "application"), *((key, maker) for key in others for maker in MAKERS)]


def reason_of(session: OIDCSession[Identity], endings: Sequence[Ending | None]) -> EndReason | None:
    """Why `session` is over, by what was found at its `places`; None when it goes on."""
    of_session, *others = endings
    if of_session is not None:
        return of_session.reason
    moments = cycle((session.authenticated_at, session.created_at))  # as MAKERS
    for ending, moment in zip(others, moments, strict=False):
        if ending is not None and moment <= ending.issued_at:
            return ending.reason
    return None


def digest(key: Key) -> str:
    """The key in 64 hexadecimal digits, which name nobody."""
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()


def _session_key(session_id: str) -> Key:
    return ("session", session_id)
