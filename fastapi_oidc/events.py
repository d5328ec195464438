"""Events for the log and the application's `on_event`; they never contain a token or cookie."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeAlias

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, OIDCError


class EventName(StrEnum):
    """The kinds of events; their names are stable."""

    LOGIN_STARTED = "login.started"
    LOGIN_SUCCEEDED = "login.succeeded"
    LOGIN_REFUSED = "login.refused"
    SESSION_REFRESHED = "session.refreshed"
    SESSION_REFRESH_POSTPONED = "session.refresh_postponed"
    SESSION_IDENTITY_NOT_UPDATED = "session.identity_not_updated"
    SESSION_ENDED = "session.ended"
    SESSION_NOT_REMOVED = "session.not_removed"
    SESSION_REMOVED = "session.removed"
    SESSION_REMOVAL_GIVEN_UP = "session.removal_given_up"
    SESSION_COOKIE_WITHHELD = "session.cookie_withheld"
    LOGOUT_STARTED = "logout.started"
    LOGOUT_RETURNED = "logout.returned"
    LOGOUT_RETURN_REFUSED = "logout.return_refused"
    LOGOUT_REVOCATION_FAILED = "logout.revocation_failed"
    FRONT_CHANNEL_LOGOUT_ACCEPTED = "front_channel_logout.accepted"
    FRONT_CHANNEL_LOGOUT_REFUSED = "front_channel_logout.refused"
    BACK_CHANNEL_LOGOUT_ACCEPTED = "back_channel_logout.accepted"
    BACK_CHANNEL_LOGOUT_REFUSED = "back_channel_logout.refused"
    REQUEST_REFUSED = "request.refused"
    ACCESS_GIVEN = "access.given"
    ACCESS_WITHDRAWN = "access.withdrawn"
    ACCESS_CALLED = "access.called"
    ACCESS_APPROVAL_ASKED = "access.approval_asked"
    ACCESS_APPROVAL_DECIDED = "access.approval_decided"


@dataclass(frozen=True, slots=True)
class Event:
    """An event that happened at `at` (seconds since the epoch).

    `session_id` names a session and gives no access to it. `code` says why a request was refused or
    a session ended; `explanation` has more details for the log. With several registrations,
    `registration` is the `name` of the settings, if the event is about one of them.
    """

    name: EventName
    at: int
    sub: str | None = None
    session_id: str | None = None
    sid: str | None = None
    code: Code | None = None
    explanation: str = ""
    registration: str | None = None


EventListener: TypeAlias = Callable[[Event], None]

_FAILURES: Final = (
    "refused", "failed", "postponed", "withheld", "not_updated", "not_removed", "given_up"
)  # fmt: skip
"""How the names of warnings end."""


class Announcer:
    """Sends events to the log (`fastapi_oidc.<area>`, one line each) and to the listener."""

    def __init__(self, clock: Clock, listener: EventListener | None = None) -> None:
        self._clock, self._listener, self._registration = clock, listener, ""
        self._advised: set[str] = set()

    def of(self, registration: str) -> Announcer:
        """The same, for the events of one of several registrations."""
        announcer = copy.copy(self)
        announcer._registration = registration
        return announcer

    def announce(
        self,
        name: EventName,
        error: OIDCError | None = None,
        *,
        sub: str | None = None,
        session_id: str | None = None,
        sid: str | None = None,
        code: Code | None = None,
        explanation: str = "",
    ) -> None:
        """Announce an event that happens now: `error` describes it, and is marked as announced."""
        if error is not None:
            error.is_announced = True
            code, explanation = error.code, error.message
        self(Event(name, self._clock.now(), sub, session_id, sid, code, explanation))

    def __call__(self, event: Event) -> None:
        """Announce `event`. An exception of the listener is logged and has no other effect."""
        if self._registration:
            event = replace(event, registration=self._registration)
        logger = logging.getLogger(f"fastapi_oidc.{event.name.partition('.')[0]}")
        level = logging.WARNING if event.name.endswith(_FAILURES) else logging.INFO
        if logger.isEnabledFor(level):  # a line takes as long as the rest
            logger.log(level, "%s", _line(event), extra={"oidc_event": event})
        if self._listener is None:
            return
        try:
            self._listener(event)
        except Exception:
            logger.exception("on_event raised for %s", event.name)

    def advise(self, setting: str, text: str) -> None:
        """Log once per process that `setting` looks wrong. `text` contains no secret."""
        if setting not in self._advised:
            self._advised.add(setting)
            logging.getLogger("fastapi_oidc.configuration").warning("%s: %s", setting, text)

    def advise_on_seconds(self, setting: str, seconds: int | None, usual: int = 60) -> None:
        """Log that a duration is below `usual`, or weeks and not whole days: in another unit?

        The default is that of a `max_age`: a login takes about as long.
        """
        if seconds and seconds < usual and seconds % 300:  # whole five minutes are meant
            more = f"As many minutes are {60 * seconds} seconds, as many days {86_400 * seconds}"
            self.advise(setting, f"{seconds} seconds. {more}")
        elif seconds and seconds > 14 * 86_400 and seconds % 86_400:
            self.advise(setting, f"{seconds} seconds, {seconds // 86_400} days. In milliseconds?")


def _line(event: Event) -> str:
    """The event as one log line. Values are quoted, so a provider's text cannot forge a line."""
    members = [
        ("registration", event.registration),
        ("sub", event.sub),
        ("session", event.session_id),
        ("sid", event.sid),
        ("code", event.code),
        ("because", event.explanation),
        ("see", event.code and event.code.link),
    ]
    return " ".join(
        [str(event.name), *(f"{key}={str(value)!r}" for key, value in members if value)]
    )
