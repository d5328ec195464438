"""What this process knows of sessions beyond what a request came with: one table, by session id."""

from __future__ import annotations

import json
from dataclasses import dataclass
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
"""Sessions remembered at most; beyond it those that are needed least long are forgotten."""

NEWEST_SECONDS: Final = 600
"""Seconds for which this process remembers the newest state of a session that it changed. After
that, the session store or the refresh record knows it."""


@dataclass(frozen=True, slots=True)
class TokenAnswer:
    """What the token endpoint returned to the refresh of `generation`, at `received_at` (seconds
    since the epoch); `verified` is its ID token once the signature was found good."""

    generation: int
    response: TokenResponse
    received_at: int
    verified: VerifiedToken | None = None

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
        return json.dumps({"received_at": self.received_at, "response": members}).encode()

    @classmethod
    def decode(cls, generation: int, encoded: bytes) -> Self:
        """What `encode` wrote; raises SessionError (session.lock_unavailable) for anything else."""
        document = parse_json(encoded)
        received_at = document.get("received_at") if isinstance(document, dict) else None
        if not isinstance(document, dict) or not isinstance(received_at, int):
            explanation = "another release wrote the refresh record"
            raise SessionError(Code.SESSION_LOCK_UNAVAILABLE, explanation)
        return cls(generation, TokenResponse.parse(document.get("response")), received_at)


@dataclass(frozen=True, slots=True)
class Postponed:
    """The refresh of `generation` decided nothing; the next attempt is due at `retry_at`.

    `pause` is how many seconds lay before it, `refusals` how often in a row the provider refused
    this refresh token without saying that it is over. `is_announced`: an event was sent for the
    attempt that this request waited for.
    """

    generation: int
    pause: int
    retry_at: int
    because: str = ""
    refusals: int = 0
    is_announced: bool = False


@dataclass(slots=True)
class LocalSession(Generic[Identity]):
    """What is known of one session."""

    newest: StoredSession[Identity] | None = None
    ended: EndReason | None = None
    end_is_announced: bool = False
    postponed: Postponed | None = None
    answer: TokenAnswer | None = None


class LocalSessions(Generic[Identity]):
    """The table; what it forgets, the session store or the refresh record still knows."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._table: TTLCache[str, LocalSession[Identity]] = TTLCache(
            clock, max_entries=LOCAL_SESSIONS
        )

    def get(self, session_id: str) -> LocalSession[Identity] | None:
        """What is known of the session; None for nothing, the usual case."""
        return self._table.get(session_id)

    def ended(self, session: OIDCSession[Identity]) -> EndReason | None:
        """Why the session ended in this process, if it did."""
        local = self._table.get(session.id)
        return None if local is None else local.ended

    def newest(self, stored: StoredSession[Identity]) -> StoredSession[Identity]:
        """The newest state of the session known here; `stored` itself when that is it."""
        local = self._table.get(stored.session.id)
        return stored if local is None or local.newest is None else newer_of(stored, local.newest)

    def keep(self, stored: StoredSession[Identity]) -> None:
        """The session goes on as `stored`, unless something newer is known or it has ended."""
        session = stored.session
        local = self._entry(session.id, min(self._clock.now() + NEWEST_SECONDS, session.expires_at))
        if local.ended is not None:
            return
        local.newest = stored if local.newest is None else newer_of(local.newest, stored)
        if local.answer and local.answer.generation < local.newest.session.generation:
            local.answer = None

    def end(self, session_id: str, reason: EndReason, *, expires_at: int) -> None:
        """The session is over: nothing that is under way brings it back before `expires_at`, its
        own end, nor does a late response take the place of what comes after it."""
        until = max(expires_at, self._clock.now() + CLOCK_MARGIN)
        local = self._entry(session_id, until)
        local.ended, local.newest, local.answer = reason, None, None

    def announce_end(self, session_id: str) -> bool:
        """Whether nobody has announced the end of the session before."""
        local = self._entry(session_id, self._clock.now() + CLOCK_MARGIN)
        is_first, local.end_is_announced = not local.end_is_announced, True
        return is_first

    def postpone(self, session: OIDCSession[Identity], postponed: Postponed, until: int) -> None:
        """No attempt to refresh the session before `postponed.retry_at`; remembered `until`."""
        self._entry(session.id, until).postponed = postponed

    def keep_answer(self, session: OIDCSession[Identity], answer: TokenAnswer) -> None:
        """What the provider returned, until a successor is made of it."""
        self._entry(session.id, session.expires_at).answer = answer

    def _entry(self, session_id: str, until: int) -> LocalSession[Identity]:
        local = self._table.get(session_id) or LocalSession()
        expires_at = max(until, self._table.expires_at(session_id))
        self._table.set(session_id, local, expires_at=expires_at)
        return local


def newer_of(
    stored: StoredSession[Identity], other: StoredSession[Identity]
) -> StoredSession[Identity]:
    """The later state of one session, last seen at the later moment; `stored` where they agree."""
    newer = other if other.session.generation > stored.session.generation else stored
    return seen_at(newer, max(stored.session.last_seen_at or 0, other.session.last_seen_at or 0))


def seen_at(stored: StoredSession[Identity], at: int) -> StoredSession[Identity]:
    """`stored`, last seen `at` (seconds since the epoch) unless it was seen later."""
    if at <= (stored.session.last_seen_at or 0):
        return stored
    return StoredSession(stored.session.model_copy(update={"last_seen_at": at}), stored.reference)
