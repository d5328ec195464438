"""What this process knows of sessions beyond what a request came with."""

from __future__ import annotations

from typing import Final, Generic

from fastapi_oidc.clock import Clock
from fastapi_oidc.once import Expiring
from fastapi_oidc.session.endings import LATE_ANSWER
from fastapi_oidc.session.keeper import Kept
from fastapi_oidc.session.model import EndReason, Identity, OIDCSession

REMEMBERED: Final = 60
"""Seconds for which requests that still carry the old cookie go on with its successor, once the
browser has shown that it has the successor."""

BESIDE_A_STORE: Final = 600
"""Seconds for which a successor that the session's store has is remembered: for requests that were
under way, and should the store lose its last writes in a failover."""

LIMIT: Final = 20_000
"""Sessions remembered at the most; beyond it those that end first are forgotten."""


class Register(Generic[Identity]):
    """The newest state of each session, and the sessions that ended here.

    A successor in a cookie is kept until a request has come with it: the answer that carried its
    cookie may be lost, and with it a refresh token that the provider gives once. It is kept for as
    long as the old cookie would open: to the session's end, or its end for idleness after
    `idle_timeout` seconds without a request. The time of its last use alone is kept so long in any
    case: a connection that stays open has the old cookie for as long as it lives.
    """

    def __init__(self, clock: Clock, *, idle_timeout: int | None = None) -> None:
        self._clock, self._idle_timeout = clock, idle_timeout
        self._newest: Expiring[str, Kept[Identity]] = Expiring(clock, max_entries=LIMIT)
        self._uses: Expiring[str, int] = Expiring(clock, max_entries=LIMIT)
        self._ended: Expiring[str, EndReason] = Expiring(clock, max_entries=LIMIT)
        self._told: Expiring[str, None] = Expiring(clock, max_entries=LIMIT)

    def keep(self, kept: Kept[Identity]) -> None:
        """`kept` is what the session goes on as, unless something newer is known."""
        if self._latest(kept) is kept:
            self._newest.set(kept.session.id, kept, ends=self._needed_until(kept))
            self._keep_use(kept)

    def newest(self, kept: Kept[Identity]) -> Kept[Identity]:
        """The newest state known of the session of `kept`; `kept` itself when that is it."""
        return used_at(self._latest(kept), self._uses.get(kept.session.id))

    def seen(self, kept: Kept[Identity]) -> Kept[Identity]:
        """As `newest`, for a request that came with `kept`: what the browser has need not be
        remembered for long."""
        known = self._newest.get(kept.session.id)
        if known is None:
            return kept
        if _rank(kept) < _rank(known):
            return known
        ends = min(self._newest.ends(kept.session.id), self._clock.now() + REMEMBERED)
        self._newest.set(kept.session.id, known, ends=ends)
        return kept

    def seen_last(self, made: Kept[Identity]) -> Kept[Identity]:
        """`made`, last seen when that was known: a request may have come while it was made."""
        known = self._newest.get(made.session.id)
        return used_at(made, known and known.session.last_seen_at)

    def end(self, session_id: str, reason: EndReason, *, ends: int) -> None:
        """The session is over: nothing that is under way brings it back before the second `ends`,
        its own end, and no late answer takes the place of what comes after it."""
        latest = self._clock.now() + LATE_ANSWER
        self._ended.set(session_id, reason, ends=max(ends, latest))
        self._newest.pop(session_id)
        self._uses.pop(session_id)

    def is_news(self, session_id: str) -> bool:
        """Whether this is the first time in a while that somebody wants to tell of its end."""
        if session_id in self._told:
            return False
        self._told.set(session_id, None, ends=self._clock.now() + LATE_ANSWER)
        return True

    def ended(self, session: OIDCSession[Identity]) -> EndReason | None:
        """Why the session ended in this process, if it did."""
        return self._ended.get(session.id)

    def _latest(self, kept: Kept[Identity]) -> Kept[Identity]:
        known = self._newest.get(kept.session.id)
        return kept if known is None else newer_of(kept, known)

    def _keep_use(self, kept: Kept[Identity]) -> None:
        """A session in a store has it beside its row."""
        session, at = kept.session, kept.session.last_seen_at
        if self._idle_timeout is not None and at is not None and kept.reference is None:
            self._uses.set(session.id, at, ends=min(session.expires_at, at + self._idle_timeout))

    def _needed_until(self, kept: Kept[Identity]) -> int:
        session = kept.session
        if kept.reference is not None:
            return min(session.expires_at, self._clock.now() + BESIDE_A_STORE)
        if self._idle_timeout is None:
            return session.expires_at
        seen = session.last_seen_at or session.created_at
        return min(session.expires_at, seen + self._idle_timeout)


def newer_of(kept: Kept[Identity], other: Kept[Identity]) -> Kept[Identity]:
    """The later state of one session; `kept` where they are alike."""
    return other if _rank(other) > _rank(kept) else kept


def used_at(kept: Kept[Identity], at: int | None) -> Kept[Identity]:
    """`kept`, last seen at `at` (seconds since the epoch) unless it was seen later."""
    if at is None or at <= (kept.session.last_seen_at or 0):
        return kept
    return Kept(kept.session.model_copy(update={"last_seen_at": at}), kept.reference)


def _rank(kept: Kept[Identity]) -> tuple[int, int]:
    return kept.session.generation, kept.session.last_seen_at or 0
