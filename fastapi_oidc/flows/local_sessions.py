"""The local sessions: this process's own table of what it knows of sessions, by session id."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Final, Generic, Self

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.protocol.json import parse_json
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.provider import VerifiedToken
from fastapi_oidc.session.backend import StoredSession
from fastapi_oidc.session.model import EndReason, Identity, OIDCSession
from fastapi_oidc.session.revocations import CLOCK_MARGIN
from fastapi_oidc.ttl_cache import TTLCache

LOCAL_SESSIONS: Final = 20_000
"""Maximum number of sessions in the table."""

NEWEST_SECONDS: Final = 600
"""Seconds for which the newest state of a session is known that this process changed; afterwards
the session store or the refresh record has it.
"""


@dataclass(frozen=True, slots=True)
class TokenAnswer:
    """The token endpoint's response to the refresh of `generation`.

    `received_at` is in seconds since the epoch. `verified` is the ID token with a verified
    signature. With `api` the response has a token for another API, and only its refresh token
    belongs to the session.
    """

    generation: int
    response: TokenResponse
    received_at: int
    verified: VerifiedToken | None = None
    api: str = ""

    def encode(self) -> bytes:
        """The response with its tokens, for the session's record."""
        response = self.response
        members = {
            "access_token": response.access_token,
            "token_type": response.token_type,
            "id_token": response.id_token,
            "refresh_token": response.refresh_token,
            "expires_in": response.expires_in,
            "scope": None if response.scope is None else " ".join(response.scope),
            "session_state": response.session_state,
        }
        document = {"received_at": self.received_at, "response": members, "api": self.api}
        return json.dumps(document).encode()

    @classmethod
    def decode(cls, generation: int, encoded: bytes) -> Self:
        """Read the result of `encode`; raises SessionError (session.lock_unavailable)."""
        document = parse_json(encoded)
        received_at = document.get("received_at") if isinstance(document, dict) else None
        if not isinstance(document, dict) or not isinstance(received_at, int):
            explanation = "another release wrote the refresh record"
            raise SessionError(Code.SESSION_LOCK_UNAVAILABLE, explanation)
        response = TokenResponse.parse(document.get("response"))
        return cls(generation, response, received_at, api=str(document.get("api", "")))


@dataclass(frozen=True, slots=True)
class Postponed:
    """The refresh of `generation` had no result; the next attempt is due at `retry_at`.

    `pause` is the number of seconds before that attempt. `refusals` is how often in a row the
    provider refused this refresh token without saying that it is invalid. `is_announced`: an event
    was sent for the attempt that this request waited for.
    """

    generation: int
    pause: int
    retry_at: int
    because: str = ""
    refusals: int = 0
    is_announced: bool = False


@dataclass(slots=True)
class LocalSession(Generic[Identity]):
    """The entry of one session."""

    newest: StoredSession[Identity] | None = None
    ended: EndReason | None = None
    end_is_announced: bool = False
    postponed: Postponed | None = None
    answer: TokenAnswer | None = None

    def drop_earlier(self, generation: int) -> None:
        """Forget the response and the pause of a refresh that is done."""
        if self.answer is not None and self.answer.generation < generation:
            self.answer = None
        if self.postponed is not None and self.postponed.generation < generation:
            self.postponed = None


class LocalSessions(Generic[Identity]):
    """The table. Threads may change it: sync endpoints sign users out.

    Beyond `LOCAL_SESSIONS`, the entry that expires first is dropped: a state that is elsewhere too
    before an end, a pause or a response, which are kept until the session's end. A dropped end is
    in the session store or refresh record: until its next refresh, a copy of an ended session's
    cookie is accepted as in another process. A dropped response is in the refresh record. A dropped
    pause is over, and refusals are counted anew.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._table: TTLCache[str, LocalSession[Identity]] = TTLCache(
            clock, max_entries=LOCAL_SESSIONS
        )
        self._changing = Lock()

    def __contains__(self, session_id: str) -> bool:
        """Whether this process has refreshed, used or ended the session lately."""
        return session_id in self._table

    def ended(self, session: OIDCSession[Identity]) -> EndReason | None:
        """Why the session has ended, if it ended in this process."""
        local = self._table.get(session.id)
        return None if local is None else local.ended

    def newest(self, stored: StoredSession[Identity]) -> StoredSession[Identity]:
        """The newest state of the session in this process; `stored` itself if it is the newest."""
        local = self._table.get(stored.session.id)
        return stored if local is None or local.newest is None else newer_of(stored, local.newest)

    def postponed(self, session: OIDCSession[Identity]) -> Postponed | None:
        """The last refresh without a result of this generation of the session."""
        local = self._table.get(session.id)
        found = None if local is None else local.postponed
        return found if found is not None and found.generation == session.generation else None

    def answer(self, session: OIDCSession[Identity]) -> TokenAnswer | None:
        """The provider's response to the refresh token of this generation of the session."""
        local = self._table.get(session.id)
        found = None if local is None else local.answer
        return found if found is not None and found.generation == session.generation else None

    def keep(self, stored: StoredSession[Identity]) -> None:
        """Store the state `stored`, unless a newer one is known or the session has ended."""
        session = stored.session
        until = min(self._clock.now() + NEWEST_SECONDS, session.expires_at)
        with self._changing:
            local = self._table.get(session.id) or LocalSession()
            if local.ended is not None:
                return
            local.newest = stored if local.newest is None else newer_of(local.newest, stored)
            local.drop_earlier(local.newest.session.generation)
            if local.answer or local.postponed or local.end_is_announced:
                until = max(until, self._table.expires_at(session.id))
            self._table.set(session.id, local, expires_at=until)

    def keep_answer(self, session: OIDCSession[Identity], answer: TokenAnswer) -> None:
        """Store the provider's response until the next session is saved."""
        with self._changed(session.id, session.expires_at) as local:
            local.answer = answer

    def postpone(self, session: OIDCSession[Identity], postponed: Postponed) -> None:
        """Store `postponed` until a refresh has a result: none before `postponed.retry_at`."""
        with self._changed(session.id, session.expires_at) as local:
            local.postponed = postponed

    def end(self, session_id: str, reason: EndReason, *, expires_at: int) -> None:
        """Note the end of the session until `expires_at`, its absolute end.

        So operations under way cannot restore the session, and late responses cannot overwrite a
        newer cookie.
        """
        until = max(expires_at, self._clock.now() + CLOCK_MARGIN)
        with self._changed(session_id, until) as local:
            local.ended, local.newest, local.answer = reason, None, None

    def announce_end(self, session_id: str) -> bool:
        """Whether the end of the session must be announced: True once, then False."""
        with self._changed(session_id, self._clock.now() + CLOCK_MARGIN) as local:
            is_first, local.end_is_announced = not local.end_is_announced, True
        return is_first

    @contextmanager
    def _changed(self, session_id: str, until: int) -> Iterator[LocalSession[Identity]]:
        """The entry, to be changed within the block; it lives until the second `until` at least."""
        with self._changing:
            local = self._table.get(session_id) or LocalSession()
            until = max(until, self._table.expires_at(session_id))
            self._table.set(session_id, local, expires_at=until)
            yield local


def newer_of(
    stored: StoredSession[Identity], other: StoredSession[Identity]
) -> StoredSession[Identity]:
    """The newer state of one session, with the later `last_seen_at`; `stored` if they are equal.

    The reference is that of `stored`: only the cookie of a request has its secret.
    """
    newer = stored
    if other.session.generation > stored.session.generation:
        newer = StoredSession(other.session, stored.reference)
    return seen_at(newer, max(stored.session.last_seen_at or 0, other.session.last_seen_at or 0))


def seen_at(stored: StoredSession[Identity], at: int) -> StoredSession[Identity]:
    """`stored` with `last_seen_at=at` (seconds since the epoch), unless it is later already."""
    if at <= (stored.session.last_seen_at or 0):
        return stored
    return StoredSession(stored.session.model_copy(update={"last_seen_at": at}), stored.reference)
