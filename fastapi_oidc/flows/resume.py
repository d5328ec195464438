"""Find the session of a request, and decide the session cookie of its response."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from fastapi_oidc.errors import Code, SessionError, misconfigured
from fastapi_oidc.events import EventName
from fastapi_oidc.flows.refresh import refresh
from fastapi_oidc.flows.relying_party import Changes, Outcome, Postponed, RelyingParty
from fastapi_oidc.flows.revocation import end
from fastapi_oidc.flows.sessions import ENDED_CODES, Found, Live, Over
from fastapi_oidc.session.model import AnySession, EndReason
from fastapi_oidc.settings import OIDCSettings

WRITES_PER_IDLE_TIMEOUT: Final = 10
"""Maximum number of writes of `last_seen_at` within one `idle_timeout`."""

NOT_IN_MEMORY: Final = (
    "a session is not in the memory of this process, so its user has to sign in again. "
    "The memory belongs to one process until it restarts: with several workers, use a "
    "store on Redis or SQL as session_store, or no session_store for sessions in cookies"
)


@dataclass(frozen=True, slots=True)
class SignedOut:
    """This request signed out or cleared the session: delete the cookie."""


PendingCookie: TypeAlias = Live | Over | SignedOut
"""What the response tells the browser: the session that its cookie leads to, or its end."""


class Resumed(NamedTuple):
    """The session of this request, or None.

    `pending` is the pending cookie, if it may change. `ended` says why the browser's session has
    ended. `unavailable` is set for a session that cannot be used right now.
    """

    session: AnySession | None
    pending: PendingCookie | None = None
    ended: EndReason | None = None
    unavailable: SessionError | None = None


def is_due(session: AnySession, settings: OIDCSettings, *, now: int) -> bool:
    """Whether the session is to be refreshed, by its times.

    Without a refresh token a session continues until its own end, even if the access token has
    expired. An access token is used for at least half of its lifetime, however short that is.
    """
    expires_at = session.tokens.expires_at
    if expires_at is None or session.tokens.refresh_token is None:
        return False
    issued_at = session.refreshed_at or session.created_at
    margin = max(0, min(settings.refresh_margin, (expires_at - issued_at) // 2))
    return now >= expires_at - margin


async def resume(party: RelyingParty, cookies: Mapping[str, str], *, active: bool) -> Resumed:
    """The session of this request, refreshed when its access token is about to expire.

    A request that is not `active` does not count for the idle timeout. Raises SessionError when the
    store is unavailable, which never signs the user out.
    """
    copy = party.sessions.copy_in(cookies)
    found = None if copy is None else await party.sessions.judge(copy)
    if copy and not found and party.sessions.is_in_memory and party.clock.now() < copy.expires_at:
        party.announcer.advise("session_store", NOT_IN_MEMORY)
    if isinstance(found, Over):
        return _over(party, found)
    serving = None if found is None else party.serving(found.session)
    if found is None or serving is None:
        return Resumed(None)
    party, session, settings, now = serving, found.session, serving.settings, serving.clock.now()
    if now >= party.end_of(session):
        return _over(party, Over(found.copy, "expired", session))
    if is_due(session, settings, now=now):
        # An old cookie may arrive long after another process has refreshed the session.
        outcome = await refresh(party, found, lambda session: not party.has_expired(session))
        return await _after(party, outcome, found, active=active)
    if active and settings.idle_timeout is not None:
        return await _used(party, found)
    return Resumed(session, pending_cookie(party, found))


async def refresh_now(party: RelyingParty, cookies: Mapping[str, str]) -> Resumed:
    """The session of this request with new tokens, however long the old ones are still valid.

    Valid tokens that another request has got in the meantime are new, too. Raises SessionError:
    session.required without a session, session.refresh_postponed while the provider is unavailable.
    Raises ConfigurationError when the provider issued no refresh token. In the last two cases the
    session continues.
    """
    live = await current(party, cookies)
    if live is None:
        raise SessionError(Code.SESSION_REQUIRED, "there is no session to refresh")
    party = party.of(live.session)
    require_refresh_token(live.session)
    known = live.copy.session or live.session

    def has_new_token(session: AnySession) -> bool:
        # A provider may return the same one again.
        is_new = session.tokens.access_token != known.tokens.access_token
        is_later = session.refreshed_at != known.refreshed_at
        return (is_new or is_later) and not party.has_expired(session)

    outcome = await refresh(party, live, has_new_token)
    if isinstance(outcome, Postponed):
        raise unavailable_until(party, outcome)
    return await _after(party, outcome, live)


def require_refresh_token(session: AnySession) -> None:
    """Raise ConfigurationError when the session has no refresh token."""
    if session.tokens.refresh_token is None:
        explanation = 'without a refresh token; providers issue one for the scope "offline_access"'
        raise misconfigured(explanation)


async def current(party: RelyingParty, cookies: Mapping[str, str]) -> Live | None:
    """The session of this request, unless it has ended. It is not refreshed."""
    copy = party.sessions.copy_in(cookies)
    return None if copy is None else unless_ended(party, await party.sessions.judge(copy))


def unless_ended(party: RelyingParty, found: Found) -> Live | None:
    """The session that was found, unless it has ended or is of another client."""
    if not isinstance(found, Live) or (serving := party.serving(found.session)) is None:
        return None
    return found if party.clock.now() < serving.end_of(found.session) else None


async def cookie_changes(party: RelyingParty, pending: PendingCookie) -> Changes:
    """The changes of the session cookie, decided when the response starts.

    Between a request and its response another request, in any process, may have refreshed, replaced
    or ended the session. If the session has ended in the meantime, its cookie is not set. The
    cookie of an ended session is deleted, unless another request has refreshed the session or the
    user has signed out or in again: then another response sets the cookie. While a store is
    unavailable, nothing changes.
    """
    try:
        match pending:
            case Live():
                return await _set(party, pending)
            case Over():
                return await _clear(party, pending)
            case SignedOut():
                return party.sessions.clearing()
    except SessionError as error:
        party.sessions.announcer.announce(EventName.SESSION_COOKIE_WITHHELD, error)
        return ()


async def _set(party: RelyingParty, live: Live) -> Changes:
    found = await party.sessions.judge_again(live)
    if not isinstance(found, Live):
        return ()
    if found.session.generation <= live.session.generation:
        found = live
    return party.sessions.cookies(found)


async def _clear(party: RelyingParty, over: Over) -> Changes:
    found = await party.sessions.judge(over.copy)
    if found is None or (isinstance(found, Over) and found.reason == "signed_out"):
        return ()  # another request ended it before, and its response changes the cookie
    if isinstance(found, Live):
        now, serving = party.clock.now(), party.of(found.session)
        if now < serving.end_of(found.session):
            return party.sessions.cookies(found)
        is_idle = now < serving.absolute_end_of(found.session)
        if is_idle and party.sessions.in_store:
            # Idle is the browser: what its user gave to a machine lasts until the absolute end.
            if not await party.sessions.refuse_copies(found):
                return ()
        else:
            await end(party, found.session, over.reason)
    return party.sessions.clearing()


async def _used(party: RelyingParty, live: Live, *, active: bool = True) -> Resumed:
    """The result for `live`. Its use is recorded, if the last record is old enough."""
    session, idle_timeout = live.session, party.settings.idle_timeout
    if active and idle_timeout is not None:
        unrecorded = party.clock.now() - (session.last_seen_at or session.created_at)
        if unrecorded >= idle_timeout // WRITES_PER_IDLE_TIMEOUT:
            found = await party.sessions.touch(live)
            if isinstance(found, Over):
                return _over(party, found)
            live = found
    return Resumed(live.session, pending_cookie(party, live))


def pending_cookie(party: RelyingParty, live: Live) -> Live | None:
    """The session, if the browser needs another cookie."""
    return live if party.sessions.needs_cookie(live) else None


async def _after(
    party: RelyingParty, outcome: Outcome, live: Live, *, active: bool = True
) -> Resumed:
    """The result for the session `live` after an attempt to refresh it."""
    match outcome:
        case Live():
            return await _used(party, outcome, active=active)
        case Over():  # perhaps found for the copy of another request
            return _over(party, outcome._replace(copy=live.copy, session=live.session))
        case Postponed():
            # The request has waited, and an attempt may have completed an earlier one.
            found = await party.sessions.judge_again(live)
            if isinstance(found, Over):
                return _over(party, found)
            # The user is active even while the provider does not respond.
            used = await _used(party, unless_ended(party, found) or live, active=active)
            if used.session is None or not party.has_expired(used.session):
                return used
            return Resumed(None, used.pending, unavailable=unavailable_until(party, outcome))


def unavailable_until(party: RelyingParty, outcome: Postponed) -> SessionError:
    """The error of a request whose session cannot be refreshed right now."""
    retry_after = max(1, outcome.retry_at - party.clock.now())
    error = SessionError(
        Code.SESSION_REFRESH_POSTPONED,
        f"the session cannot be refreshed right now: {outcome.because}",
        retry_after=retry_after,
    )
    error.is_announced = outcome.is_announced
    return error


def live_after(party: RelyingParty, live: Live, outcome: Outcome) -> Live:
    """The session after an attempt to refresh or replace it; raises SessionError without one."""
    match outcome:
        case Live():
            return outcome
        case Over():
            party.announce_end(outcome._replace(copy=live.copy, session=live.session))
            raise SessionError(ENDED_CODES[outcome.reason], "the session has ended")
        case Postponed():
            raise unavailable_until(party, outcome)


def _over(party: RelyingParty, over: Over) -> Resumed:
    """The result for a session that has ended."""
    party.announce_end(over)
    # After a sign-out the cookie is deleted already, or belongs to the next session.
    return Resumed(None, None if over.reason == "signed_out" else over, ended=over.reason)
