"""What one process knows of refreshes: outcomes, and the pauses without a result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from fastapi_oidc.clock import Clock, TTLCache
from fastapi_oidc.concurrency import PerLoop, SingleFlight
from fastapi_oidc.errors import Code, OIDCError
from fastapi_oidc.events import Announcer, EventName
from fastapi_oidc.flows.sessions import Live, Over
from fastapi_oidc.protocol.refusal import RefusedRequest
from fastapi_oidc.session.model import AnySession

FIRST_BACKOFF, LONGEST_BACKOFF = 5, 60
"""Seconds between two attempts while the provider is unavailable; doubled each time."""

RETRY_SECONDS: Final = 1
"""Seconds until a retry, if the refresh is still under way or a shutdown has begun."""

MOST_POSTPONED: Final = 20_000
"""Maximum number of sessions whose pauses one process knows; beyond it, a pause is over."""


@dataclass(frozen=True, slots=True)
class Refreshed:
    """The session continues as `live`.

    `is_new`: the provider has just issued its tokens for this caller; otherwise the state is of an
    earlier refresh, or of a token request for another API.
    """

    live: Live
    is_new: bool = False


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


Outcome: TypeAlias = Refreshed | Over | Postponed


class ShuttingDown(Exception):
    """The refresh had not started when the application shut down."""


class Refreshes:
    """The refreshes of one process, by session id: those under way, and the pauses.

    An application may shut down and start again any number of times.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pauses: TTLCache[str, Postponed] = TTLCache(clock, max_entries=MOST_POSTPONED)
        self.tasks: SingleFlight[str, Outcome] = SingleFlight()
        self._is_open = PerLoop(lambda: [True])

    def ticket(self) -> Callable[[], None]:
        """A check for one refresh: it raises ShuttingDown once a shutdown has begun."""
        gate = self._is_open.here()

        def check() -> None:
            if not gate[0]:
                raise ShuttingDown

        return check

    async def aclose(self, seconds: float) -> None:
        """Wait for the responses to token requests that were sent, and send no further requests.

        Their refresh tokens are used up, so the responses must not be lost. Refreshes that are
        requested later may run.
        """
        self._is_open.here()[0] = False
        try:
            await self.tasks.wait(seconds)
        finally:
            self._is_open.forget()

    def pause_of(self, session: AnySession) -> Postponed | None:
        """The pause of this generation of the session; None if a refresh is due."""
        found = self._last(session)
        # A time that is further away than the pause is from before the clock was set back.
        is_due = found is None or not 0 < found.retry_at - self._clock.now() <= found.pause
        return None if is_due else found

    def refusals_of(self, session: AnySession) -> int:
        """How often in a row this generation's refresh token was refused without a clear reason."""
        last = self._last(session)
        return 0 if last is None else last.refusals

    def briefly(self, session: AnySession, because: str) -> Postponed:
        """A pause of one request, without an effect on others."""
        retry_at = self._clock.now() + RETRY_SECONDS
        return Postponed(session.generation, RETRY_SECONDS, retry_at, because)

    def postpone(self, session: AnySession, error: OIDCError, announcer: Announcer) -> Postponed:
        """Announce a refresh without a result, and pause before the next attempt."""
        now, before = self._clock.now(), self._last(session)
        pause = FIRST_BACKOFF if before is None else min(2 * before.pause, LONGEST_BACKOFF)
        if error.code is Code.SESSION_LOCK_UNAVAILABLE:  # its owner may be dead by then
            pause = FIRST_BACKOFF
        refusals = self.refusals_of(session) + 1 if isinstance(error, RefusedRequest) else 0
        postponed = Postponed(session.generation, pause, now + pause, error.message, refusals)
        self._pauses.set(session.id, postponed, expires_at=session.last_end)
        name = EventName.SESSION_REFRESH_POSTPONED
        announcer.announce(name, error, sub=session.sub, session_id=session.id)
        return replace(postponed, is_announced=True)

    def _last(self, session: AnySession) -> Postponed | None:
        found = self._pauses.get(session.id)
        return found if found is not None and found.generation == session.generation else None
