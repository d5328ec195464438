"""Revocations of users and `sid` values, and the lists of a user's sessions."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, Self, TypeAlias

from pydantic import TypeAdapter

from fastapi_oidc.protocol.encoding import read_stored
from fastapi_oidc.session.model import AnySession, EndReason
from fastapi_oidc.session.store import Cell

MINIMUM_LIFETIME: Final = 30 * 24 * 3600
"""Seconds. A shorter `session_lifetime` must not make a revoked session valid again."""

DIGEST_LENGTH: Final = 16
"""Length in characters of the digest of earlier stamps."""

ANY, NO_SID = "", "no sid"
"""Which sessions of a key are meant: all of them, or those without a `sid`. For the key of a `sid`,
also the `sub` of one user.
"""


class Revocation(NamedTuple):
    """What ends some of the sessions with one key.

    `issued_at` is the latest `iat` of the provider's logout tokens, `stamp` combines all of the
    application's revocations so far ("" without one), and `reason` is the latest one's.
    """

    issued_at: int = 0
    stamp: str = ""
    reason: EndReason = "revoked"

    def merged(self, earlier: Self | None) -> Revocation:
        """Both combined, in the order in which the store received them."""
        if earlier is None:
            return self
        stamp, reason = earlier.stamp, self.reason if self.stamp else earlier.reason
        # A stamp whose reply was lost is written again: logins that have found it are later.
        if not stamp.endswith(self.stamp):
            # Not this stamp alone: if it is written again after a later one, logins between the
            # two would have it.
            before = hashlib.sha1(stamp.encode(), usedforsecurity=False).hexdigest()
            stamp = before[:DIGEST_LENGTH] + self.stamp
        return Revocation(max(self.issued_at, earlier.issued_at), stamp, reason)

    def reason_for(self, session: AnySession) -> EndReason | None:
        """Why `session` has ended; None when its login was later."""
        if self.stamp and self.stamp not in session.prior_revocations:
            return self.reason
        return "ended_by_provider" if session.authenticated_at <= self.issued_at else None


Revocations: TypeAlias = dict[str, Revocation]
"""The value of one key: which sessions are meant (ANY, NO_SID, a `sub`) -> what ends them."""

_REVOCATIONS: Final = TypeAdapter(Revocations)


def by_application(reason: EndReason) -> Revocation:
    """A new revocation by the application."""
    return Revocation(stamp=secrets.token_urlsafe(6), reason=reason)


def decode(encoded: bytes) -> Revocations:
    """Read the value of a key; raises SessionError (session.store_unavailable)."""
    return read_stored(_REVOCATIONS, encoded or b"{}")


def added(encoded: bytes, of: str, revocation: Revocation) -> bytes:
    """The value of a key with one more revocation."""
    found = decode(encoded)
    return json.dumps({**found, of: revocation.merged(found.get(of))}).encode()


def keys_of(session: AnySession) -> tuple[str, ...]:
    """The keys under which a revocation of `session` may be: its user's, and of each `sid`."""
    issuer, client_id = session.issuer, session.client_id
    sids = () if session.sid is None else (session.sid, *session.former_sids)
    return (
        user_key(issuer, client_id, session.sub),
        *[sid_key(issuer, client_id, sid) for sid in sids],
    )


def reason_in(session: AnySession, found: Sequence[bytes]) -> EndReason | None:
    """Why `session` has ended, by the values under its `keys_of`; None if it has not."""
    return next(filter(None, (each.reason_for(session) for each in _naming(session, found))), None)


def stamps_in(session: AnySession, found: Sequence[bytes]) -> tuple[str, ...]:
    """The stamps that a login of `session` finds."""
    return tuple(each.stamp for each in _naming(session, found) if each.stamp)


def _naming(session: AnySession, found: Sequence[bytes]) -> Iterable[Revocation]:
    of_user = (ANY,) if session.sid else (ANY, NO_SID)
    of_sid = (ANY, session.sub)
    for number, encoded in enumerate(found):
        if encoded:
            revocations = decode(encoded)
            named = of_sid if number else of_user
            yield from (revocations[each] for each in named if each in revocations)


@lru_cache(maxsize=4096)
def user_key(issuer: str, client_id: str, sub: str) -> str:
    """The key of one user of one client. It does not reveal the user."""
    return f"user:{_digest(issuer, client_id, sub)}"


@lru_cache(maxsize=4096)
def sid_key(issuer: str, client_id: str, sid: str) -> str:
    """The key of one session at the provider."""
    return f"sid:{_digest(issuer, client_id, sid)}"


def _digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:43]


MOST_LISTED: Final = 1000
"""Maximum number of a user's sessions that are listed: the last ones to end."""


def with_id(encoded: bytes, id: str, expires_at: int, now: int) -> Cell:
    """The list with one more id, whose session ends at `expires_at` (seconds since the epoch).

    It is stored until the last of its sessions ends.
    """
    ids = {each: ends for each, ends in json.loads(encoded or b"{}").items() if ends > now}
    ids.pop(id, None)
    ids[id] = expires_at
    listed = dict(list(ids.items())[-MOST_LISTED:])
    return Cell(json.dumps(listed).encode(), max(listed.values()))


def ids_in(encoded: bytes, now: int) -> list[str]:
    """The ids of the sessions that have not expired, the oldest login first."""
    return [id for id, ends in json.loads(encoded or b"{}").items() if ends > now]
