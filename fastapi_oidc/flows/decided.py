"""What was decided of earlier attempts to refresh: who is refused, and who is to wait."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Generic

from fastapi_oidc.errors import Code, OIDCError
from fastapi_oidc.flows.events import EventName, refused
from fastapi_oidc.flows.refresh_outcomes import Outcome, Postponed, Refused, Renewed, name_of
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.once import Expiring
from fastapi_oidc.session.keeper import Kept
from fastapi_oidc.session.model import Identity, OIDCSession

FIRST_PAUSE, LONGEST_PAUSE = 5, 60
"""Seconds between two attempts while the provider cannot be asked; doubled each time."""

LIMIT: Final = 20_000
"""Refreshes remembered at the most."""


class Decided(Generic[Identity]):
    """Remembers refusals until the session's own end, and pauses until the next one is over."""

    def __init__(self, party: RelyingParty[Identity]) -> None:
        self._party, self._clock = party, party.clock
        # By session id: of this generation, and so of every earlier one.
        self._refusals: Expiring[str, tuple[int, Refused]] = Expiring(
            party.clock, max_entries=LIMIT
        )
        self._pauses: Expiring[str, Postponed] = Expiring(party.clock, max_entries=LIMIT)

    def of(self, kept: Kept[Identity]) -> Outcome[Identity] | None:
        """What was decided of `kept` before; None when it is to be refreshed."""
        if self._party.register.ended(kept.session):
            return Refused(Code.SESSION_SIGNED_OUT)
        newest = self._party.register.newest(kept)
        if newest.session.generation > kept.session.generation:
            return Renewed(newest)
        paused = self._pauses.get(name_of(kept.session))
        # A pause that is farther off than it is long is from before a clock was set back.
        if paused is not None and 0 < paused.retry_at - self._clock.now() <= paused.pause:
            return paused
        generation, refusal = self._refusals.get(kept.session.id, (-1, None))
        return refusal if kept.session.generation <= generation else None

    def renew(self, kept: Kept[Identity], successor: Kept[Identity]) -> Renewed[Identity]:
        """`successor` is what `kept` became."""
        self._party.register.keep(successor)
        self._pauses.pop(name_of(kept.session))
        return Renewed(successor)

    def refuse(self, session: OIDCSession[Identity], error: OIDCError) -> Refused:
        """The session does not go on."""
        refusal = Refused(error.code, error.account)
        self._refusals.set(session.id, (session.generation, refusal), ends=session.expires_at)
        return refusal

    def postpone(self, session: OIDCSession[Identity], error: OIDCError) -> Postponed:
        """Nothing was decided; announced, with the pause before the next attempt."""
        name, now = name_of(session), self._clock.now()
        before = self._pauses.get(name)
        pause = FIRST_PAUSE if before is None else min(2 * before.pause, LONGEST_PAUSE)
        postponed = Postponed(pause, now + pause, error.account)
        # Remembered beyond the next attempt, so that the pauses grow.
        self._pauses.set(name, postponed, ends=now + pause + 2 * LONGEST_PAUSE)
        event = refused(EventName.SESSION_REFRESH_POSTPONED, error, now)
        self._party.announcer(replace(event, sub=session.sub, session_id=session.id))
        return replace(postponed, is_announced=True)
