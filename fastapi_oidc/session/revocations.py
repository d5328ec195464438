"""Revocation records, which end sessions, and the keys under which they are stored."""

from __future__ import annotations

import hashlib
import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple, Self, TypeAlias

from pydantic import Field, model_validator

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.session.model import (
    EndReason,
    Frozen,
    Identity,
    OIDCSession,
    PreviousSession,
)

MINIMUM_RECORD_LIFETIME: Final = 30 * 24 * 3600
"""Seconds. A shorter `session_lifetime` must not make a revoked session valid again."""

CLOCK_MARGIN: Final = 3600
"""Seconds that a record outlives its sessions: a store deletes it by its own clock, and a response
to a request of an ended session may still be under way.
"""

STAMP_LENGTH: Final = 16
"""Length in characters of a stamp that combines several records."""

Key: TypeAlias = tuple[str, ...]
Maker: TypeAlias = Literal["provider", "application"]


def _usual_reason(fields: Mapping[str, object]) -> EndReason:
    return "ended_by_provider" if fields.get("made_by") == "provider" else "revoked"


class RevocationRecord(Frozen):
    """The end of one or more sessions; it names a `session_id`, a `sid` or a `sub`.

    A record with a `session_id` ends that session. Any other record names the sessions of `issuer`
    and `client_id` with this `sid` (and this `sub` if both are set), or with this `sub`. A
    provider's record with `sid` and `sub` also names the sessions of that `sub` that have no `sid`.

    A provider's record ends the named sessions whose `authenticated_at` is not after `issued_at`;
    both are times of the provider's clock (Back-Channel Logout 1.0, 2.6). An application's record
    ends the named sessions that began before it was stored: a later login finds the record and
    stores its `stamp` in the session. So times of different clocks are never compared.

    A store may delete the record after `expires_at` (seconds since the epoch). `reason` is always
    "ended_by_provider" for a provider's record and defaults to "revoked" for an application's.
    Raises ValueError when the record names nothing, or more than one kind of target.
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
    stamp: str = Field(default_factory=lambda: secrets.token_urlsafe(6))

    @model_validator(mode="after")
    def _names_one(self) -> Self:
        at_provider = self.sid is not None or self.sub is not None
        if at_provider == (self.session_id is not None):
            raise ValueError("a record names a session_id, or else a sid, a sub or both")
        if self.made_by == "provider" and self.reason != "ended_by_provider":
            raise ValueError("a provider's record has no other reason than ended_by_provider")
        return self

    def names(self, session: OIDCSession[Identity]) -> bool:
        """Whether the record names `session`; it ends the session unless the login was later."""
        return not set(keys_of_record(self)).isdisjoint(keys_of_session(session))

    def ends(self, session: OIDCSession[Identity]) -> bool:
        """Whether this record ends `session`."""
        return self.names(session) and Revocation.of(self).reason_for(session) is not None


class RevocationStore(ABC):
    """Stores revocation records for all processes of an application.

    A subclass must implement `revoke`, and either `records_of` or both `ended_by` and `stamps`. An
    exception of a method leads to a 503 response.
    """

    is_in_memory: bool = False
    """Whether only this process has the records."""

    @abstractmethod
    async def revoke(self, record: RevocationRecord, /) -> None:
        """Store `record` until `record.expires_at`. The call may be repeated."""

    async def records_of(self, session: OIDCSession[Identity], /) -> Sequence[RevocationRecord]:
        """The stored records that name `session` (`record.names(session)`)."""
        raise ConfigurationError(
            Code.CONFIGURATION_STORE_MISSING,
            f"{type(self).__name__} implements neither records_of nor ended_by and stamps",
        )

    async def ended_by(self, session: OIDCSession[Identity], /) -> EndReason | None:
        """The `reason` of a record that ends `session`; None if no record does."""
        records = await self.records_of(session)
        return next((record.reason for record in records if record.ends(session)), None)

    async def stamps(self, session: OIDCSession[Identity], /) -> tuple[str, ...]:
        """The stamps of the application's records that name `session`, for a new login."""
        records = await self.records_of(session)
        return tuple(record.stamp for record in records if record.made_by == "application")

    async def aclose(self) -> None:  # noqa: B027 - a default
        """Close the store's own connections. A later call may open new ones."""


class Revocation(NamedTuple):
    """The content that this library's stores have under one key.

    `provider` is the latest `issued_at` of the provider's records, `stamp` combines all of the
    application's records so far ("" without one), and `reason` is the latest record's.
    """

    provider: int = 0
    stamp: str = ""
    reason: EndReason = "revoked"

    @classmethod
    def of(cls, record: RevocationRecord) -> Self:
        """The content that `record` adds under each of its keys."""
        if record.made_by == "provider":
            return cls(provider=record.issued_at)
        return cls(stamp=record.stamp, reason=record.reason)

    def merged(self, earlier: Revocation | None) -> Revocation:
        """Both contents combined, in the order in which the store received them."""
        if earlier is None:
            return self
        latest = self if self.stamp else earlier
        stamp = latest.stamp
        if self.stamp and earlier.stamp and self.stamp != earlier.stamp:
            # Not the record's own stamp: if the record is written again after a later one, logins
            # between the two would have that stamp.
            both = f"{earlier.stamp} {self.stamp}".encode()
            stamp = hashlib.sha1(both, usedforsecurity=False).hexdigest()[:STAMP_LENGTH]
        return Revocation(max(self.provider, earlier.provider), stamp, latest.reason)

    def reason_for(self, session: OIDCSession[Identity]) -> EndReason | None:
        """Why `session`, which has this key, has ended; None when its login was later."""
        if self.stamp and self.stamp not in session.prior_revocations:
            return self.reason
        return "ended_by_provider" if session.authenticated_at <= self.provider else None


def expiry_of_record(now: int, session_lifetime: int) -> int:
    """When a record from `now` may be deleted, however `session_lifetime` changes."""
    return now + max(session_lifetime, MINIMUM_RECORD_LIFETIME) + CLOCK_MARGIN


def end_record(
    session: OIDCSession[Identity] | PreviousSession, reason: EndReason, now: int
) -> RevocationRecord:
    """The record that ends this session; it outlives every copy of the session's cookie."""
    return RevocationRecord(
        issuer=session.issuer,
        client_id=session.client_id,
        session_id=session.id,
        issued_at=now,
        expires_at=max(session.expires_at, now) + CLOCK_MARGIN,
        made_by="application",
        reason=reason,
    )


def keys_of_record(record: RevocationRecord) -> tuple[Key, ...]:
    """The keys under which `record` is stored, so that finding it needs no search."""
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
    """The keys of all records that could name `session`, the key of its id first."""
    client = (session.issuer, session.client_id)
    always = (_session_key(session.id), user_key(*client, session.sub))
    if session.sid is None:
        return (*always, _key_without_sid(session))
    return (*always, _key_of_sid(session, session.sid), (*client, "sid", session.sid, session.sub))


def first_reason(
    session: OIDCSession[Identity], found: Sequence[Revocation | None]
) -> EndReason | None:
    """Why `session` has ended, by the contents `found` under its keys; None if it has not."""
    for revocation in found:
        reason = None if revocation is None else revocation.reason_for(session)
        if reason is not None:
            return reason
    return None


def stamps_in(found: Sequence[Revocation | None]) -> tuple[str, ...]:
    """The stamps of the application's records in the contents `found` under a session's keys."""
    return tuple(each.stamp for each in found if each is not None and each.stamp)


def digests_of(session: OIDCSession[Identity]) -> tuple[str, ...]:
    """The digests of `keys_of_session`, for the reference cookie."""
    return tuple(map(digest, keys_of_session(session)))


def are_current(digests: Sequence[str], session: OIDCSession[Identity]) -> bool:
    """Whether `digests` are those of `session`; only its `sid` can have changed."""
    if session.sid is None:
        return len(digests) == 3 and digests[2] == digest(_key_without_sid(session))
    return len(digests) == 4 and digests[2] == digest(_key_of_sid(session, session.sid))


@lru_cache(maxsize=4096)
def digest(key: Key) -> str:
    """The SHA-256 of the key in hexadecimal digits, which does not reveal the user."""
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()


def user_key(issuer: str, client_id: str, sub: str) -> Key:
    """The key of one user of one client."""
    return (issuer, client_id, "sub", sub)


def _key_without_sid(session: OIDCSession[Identity]) -> Key:
    return (session.issuer, session.client_id, "sub", session.sub, "without sid")


def _key_of_sid(session: OIDCSession[Identity], sid: str) -> Key:
    return (session.issuer, session.client_id, "sid", sid, "")


def _session_key(session_id: str) -> Key:
    return ("session", session_id)
