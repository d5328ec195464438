"""Which sessions are over: records of endings, and the keys under which they are looked up."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple, Self, TypeAlias

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

LATE_ANSWER: Final = 3600
"""Seconds after which no answer comes any more to a request that had a session."""

Key: TypeAlias = tuple[str, ...]
Maker: TypeAlias = Literal["provider", "application"]


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
    """All that is kept under one key: up to when sessions are over, by each maker's clock.

    `reason` is the application's; the provider has but one.
    """

    provider: int = 0
    application: int = 0
    reason: EndReason = "revoked"

    @classmethod
    def of(cls, record: RevocationRecord) -> Self:
        """What `record` adds under each of its keys."""
        if record.session_id is not None:
            return cls(application=record.expires_at, reason=record.reason)
        if record.made_by == "provider":
            return cls(provider=record.issued_at)
        return cls(application=record.issued_at, reason=record.reason)

    def joined(self, other: Ending | None) -> Ending:
        """Both; where they differ, what reaches further, and at last `self`."""
        if other is None:
            return self
        newer = self if self.application >= other.application else other
        return Ending(max(self.provider, other.provider), newer.application, newer.reason)

    def reason_for(self, session: OIDCSession[Identity]) -> EndReason | None:
        """Why `session`, which has this key, is over; None when it is younger."""
        if session.created_at <= self.application:
            return self.reason
        return "ended_by_provider" if session.authenticated_at <= self.provider else None


def expiry_of_record(now: int, session_lifetime: int) -> int:
    """When a record made at `now` may be forgotten, in whatever way `session_lifetime` changes, and
    by the clock of whichever process or store."""
    return now + max(session_lifetime, MINIMUM_RECORD_LIFETIME) + LATE_ANSWER


def ending_of(
    session: OIDCSession[Identity] | PreviousSession, reason: EndReason, now: int
) -> RevocationRecord:
    """The record that ends this one session, kept for longer than a copy of it could open.

    A store forgets it by a clock of its own, which may be ahead of the one that the session ends
    by; and of a session whose time is over an answer may still be under way.
    """
    return RevocationRecord(
        issuer=session.issuer,
        client_id=session.client_id,
        session_id=session.id,
        issued_at=now,
        expires_at=max(session.expires_at, now) + LATE_ANSWER,
        made_by="application",
        reason=reason,
    )


def keys_of_record(record: RevocationRecord) -> tuple[Key, ...]:
    """The keys under which `record` is kept, so that looking it up needs no search."""
    if record.session_id is not None:
        return (_session_key(record.session_id),)
    client = (record.issuer, record.client_id)
    if record.sid is None:
        return (user_key(*client, record.sub or ""),)
    key = (*client, "sid", record.sid, record.sub or "")
    if record.sub is None or record.made_by == "application":
        return (key,)
    return (key, (*client, "sub", record.sub, "without sid"))


def keys_of_session(session: OIDCSession[Identity]) -> tuple[Key, ...]:
    """The keys of all records that could cover `session`: that of its id first."""
    client = (session.issuer, session.client_id)
    of_all = (_session_key(session.id), user_key(*client, session.sub))
    if session.sid is None:
        return (*of_all, _key_without_sid(session))
    return (*of_all, _key_of_sid(session, session.sid), (*client, "sid", session.sid, session.sub))


def reason_of(session: OIDCSession[Identity], endings: Sequence[Ending | None]) -> EndReason | None:
    """Why `session` is over, by what was found under its keys; None when it goes on."""
    for ending in endings:
        reason = None if ending is None else ending.reason_for(session)
        if reason is not None:
            return reason
    return None


def digests_of(session: OIDCSession[Identity]) -> tuple[str, ...]:
    """The digests of `keys_of_session`, for a cookie to remember."""
    return tuple(map(digest, keys_of_session(session)))


def are_current(digests: Sequence[str], session: OIDCSession[Identity]) -> bool:
    """Whether `digests` are those of `session`, in which nothing but its `sid` can have changed."""
    if session.sid is None:
        return len(digests) == 3 and digests[2] == digest(_key_without_sid(session))
    return len(digests) == 4 and digests[2] == digest(_key_of_sid(session, session.sid))


@lru_cache(maxsize=4096)
def digest(key: Key) -> str:
    """The key in 64 hexadecimal digits, which name nobody."""
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()


def user_key(issuer: str, client_id: str, sub: str) -> Key:
    """Names one user of one client."""
    return (issuer, client_id, "sub", sub)


def _key_without_sid(session: OIDCSession[Identity]) -> Key:
    return (session.issuer, session.client_id, "sub", session.sub, "without sid")


def _key_of_sid(session: OIDCSession[Identity], sid: str) -> Key:
    return (session.issuer, session.client_id, "sid", sid, "")


def _session_key(session_id: str) -> Key:
    return ("session", session_id)
