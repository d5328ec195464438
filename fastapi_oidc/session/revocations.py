"""Which sessions are over: revocation records, and the keys under which they are looked up."""

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
"""Seconds; a shorter `session_lifetime` must not bring a revoked session back to life."""

CLOCK_MARGIN: Final = 3600
"""Seconds that a record outlives the sessions it covers: a store forgets it by a clock of its own,
and a response to a request of an ended session may still be under way."""

STAMP_LENGTH: Final = 16
"""Characters of the stamp that stands for several records."""

Key: TypeAlias = tuple[str, ...]
Maker: TypeAlias = Literal["provider", "application"]


def _usual_reason(fields: Mapping[str, object]) -> EndReason:
    return "ended_by_provider" if fields.get("made_by") == "provider" else "revoked"


class RevocationRecord(Frozen):
    """The end of one or more sessions; names a `session_id`, a `sid` or a `sub`.

    A `session_id` ends that session. Any other record names the sessions of `issuer` and
    `client_id` with this `sid` (and this `sub` when both are given), or with this `sub`. A
    provider's record with `sid` and `sub` also names the sessions of that `sub` without a `sid`.

    Of the named sessions, a provider's record ends those whose `authenticated_at` is not after
    `issued_at`, both by the provider's clock (Back-Channel Logout 1.0, 2.6). An application's
    record ends those that began before it was stored: a login afterwards finds the record and
    remembers its `stamp`. So no two clocks are compared.

    A store may forget the record after `expires_at`. `reason` defaults to "ended_by_provider" for a
    provider's record, which has no other, and to "revoked" for the application's. Raises ValueError
    when the record names nothing, or too much.
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
        """Whether the record is about `session`, which it ends unless the login came later."""
        return not set(keys_of_record(self)).isdisjoint(keys_of_session(session))

    def ends(self, session: OIDCSession[Identity]) -> bool:
        """Whether `session` is over by this record."""
        return self.names(session) and Revocation.of(self).reason_for(session) is not None


class RevocationStore(ABC):
    """Keeps revocation records for every process of an application.

    A subclass has `revoke`, and either `records_of` or both `ended_by` and `stamps`. What a method
    raises becomes a 503 response.
    """

    @abstractmethod
    async def revoke(self, record: RevocationRecord, /) -> None:
        """Keep `record` until `record.expires_at`; repeating the call is harmless."""

    async def records_of(self, session: OIDCSession[Identity], /) -> Sequence[RevocationRecord]:
        """The records kept here that name `session` (`record.names(session)`)."""
        raise ConfigurationError(
            Code.CONFIGURATION_STORE_MISSING,
            f"{type(self).__name__} implements neither records_of nor ended_by and stamps",
        )

    async def ended_by(self, session: OIDCSession[Identity], /) -> EndReason | None:
        """The `reason` of a record that ends `session`; None while the session goes on."""
        records = await self.records_of(session)
        return next((record.reason for record in records if record.ends(session)), None)

    async def stamps(self, session: OIDCSession[Identity], /) -> tuple[str, ...]:
        """The stamps of the application's records that name `session`, for a new login."""
        records = await self.records_of(session)
        return tuple(record.stamp for record in records if record.made_by == "application")

    async def aclose(self) -> None:  # noqa: B027 - a default
        """Close the store's own connections; a later call may open new ones."""


class Revocation(NamedTuple):
    """What a store of ours keeps under one key.

    `provider` is the latest `issued_at` of the provider's records, `stamp` stands for all of the
    application's records so far ("" without one), `reason` is that of the latest.
    """

    provider: int = 0
    stamp: str = ""
    reason: EndReason = "revoked"

    @classmethod
    def of(cls, record: RevocationRecord) -> Self:
        """What `record` adds under each of its keys."""
        if record.made_by == "provider":
            return cls(provider=record.issued_at)
        return cls(stamp=record.stamp, reason=record.reason)

    def merged(self, earlier: Revocation | None) -> Revocation:
        """Both, in the order in which the store received them."""
        if earlier is None:
            return self
        latest = self if self.stamp else earlier
        stamp = latest.stamp
        if self.stamp and earlier.stamp and self.stamp != earlier.stamp:
            # Not the record's own: written again after a later one, it would be known to logins
            # that came between the two.
            both = f"{earlier.stamp} {self.stamp}".encode()
            stamp = hashlib.sha1(both, usedforsecurity=False).hexdigest()[:STAMP_LENGTH]
        return Revocation(max(self.provider, earlier.provider), stamp, latest.reason)

    def reason_for(self, session: OIDCSession[Identity]) -> EndReason | None:
        """Why `session`, which has this key, is over; None when its login came later."""
        if self.stamp and self.stamp not in session.prior_revocations:
            return self.reason
        return "ended_by_provider" if session.authenticated_at <= self.provider else None


def expiry_of_record(now: int, session_lifetime: int) -> int:
    """When a record made at `now` may be forgotten, however `session_lifetime` changes."""
    return now + max(session_lifetime, MINIMUM_RECORD_LIFETIME) + CLOCK_MARGIN


def end_record(
    session: OIDCSession[Identity] | PreviousSession, reason: EndReason, now: int
) -> RevocationRecord:
    """The record that ends this one session; it outlives every copy of the session's cookie."""
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
    """The keys under which `record` is kept, so that finding it needs no search."""
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
    """Why `session` is over, by what was found under its keys; None when it goes on."""
    for revocation in found:
        reason = None if revocation is None else revocation.reason_for(session)
        if reason is not None:
            return reason
    return None


def stamps_in(found: Sequence[Revocation | None]) -> tuple[str, ...]:
    """The stamps of the application's records among what was found under a session's keys."""
    return tuple(each.stamp for each in found if each is not None and each.stamp)


def digests_of(session: OIDCSession[Identity]) -> tuple[str, ...]:
    """The digests of `keys_of_session`, for a cookie to carry."""
    return tuple(map(digest, keys_of_session(session)))


def are_current(digests: Sequence[str], session: OIDCSession[Identity]) -> bool:
    """Whether `digests` are those of `session`, of which only the `sid` can have changed."""
    if session.sid is None:
        return len(digests) == 3 and digests[2] == digest(_key_without_sid(session))
    return len(digests) == 4 and digests[2] == digest(_key_of_sid(session, session.sid))


@lru_cache(maxsize=4096)
def digest(key: Key) -> str:
    """The SHA-256 of the key in hexadecimal digits; it names nobody."""
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
