"""Find the session of a request, and decide the session cookie of its response."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, Generic, NamedTuple, TypeAlias

from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.events import Event, EventName, refusal
from fastapi_oidc.flows.local_sessions import Postponed, newer_of, seen_at
from fastapi_oidc.flows.refresh import Ended, RefreshCoordinator, Refreshed, RefreshOutcome
from fastapi_oidc.flows.relying_party import Changes, Policy, RelyingParty
from fastapi_oidc.flows.revocation import end, end_of
from fastapi_oidc.session.backend import Lookup, StoredSession
from fastapi_oidc.session.model import EndReason, Identity, OIDCSession
from fastapi_oidc.session.records import Advance, end_reason_in
from fastapi_oidc.session.revocations import CLOCK_MARGIN

WRITES_PER_IDLE_TIMEOUT: Final = 10
"""Maximum number of writes of `last_seen_at` within one `idle_timeout`."""

ENDED_CODES: Final[Mapping[EndReason, Code]] = {
    "expired": Code.SESSION_EXPIRED,
    "revoked": Code.SESSION_REVOKED,
    "ended_by_provider": Code.SESSION_REVOKED,
    "signed_out": Code.SESSION_SIGNED_OUT,
}

_SEALED_OTHERWISE: Final = (
    "the session cookie {name} was not sealed with it, so its user has to sign in again. Use the "
    "same secret in every process and deployment, and to rotate it keep the old one as the "
    "second. If another application on this host has cookies of the same names, give each a `name`"
)
_MEMORY: Final = (
    "a session is not in the memory of this process, so its user has to sign in again. "
    "The memory belongs to one process until it restarts: with several workers, use a "
    "RedisSessionStore as session_store, or no session_store for sessions in cookies"
)


@dataclass(frozen=True, slots=True)
class SetCookie(Generic[Identity]):
    """Set the cookie to `stored`, the new state of the session."""

    stored: StoredSession[Identity] = field(repr=False)


@dataclass(frozen=True, slots=True)
class ClearCookie(Generic[Identity]):
    """The browser's session has ended: delete the cookie."""

    stored: StoredSession[Identity] = field(repr=False)
    reason: EndReason


@dataclass(frozen=True, slots=True)
class NewSession(Generic[Identity]):
    """This request signed in: set the cookie."""

    stored: StoredSession[Identity] = field(repr=False)


@dataclass(frozen=True, slots=True)
class SignedOut:
    """This request signed out or cleared the session: delete the cookie."""


PendingCookie: TypeAlias = (
    SetCookie[Identity] | ClearCookie[Identity] | NewSession[Identity] | SignedOut
)


class Resumed(NamedTuple, Generic[Identity]):
    """The session of this request, or None.

    `pending` is the pending cookie, if it may change. `ended` says why the browser's session has
    ended. `unavailable` is set for a session that cannot be used right now.
    """

    session: OIDCSession[Identity] | None
    pending: PendingCookie[Identity] | None = None
    ended: EndReason | None = None
    unavailable: SessionError | None = None


class Decision(Enum):
    """What to do with the session of a request."""

    KEEP = "keep"
    REFRESH = "refresh"
    END = "end"


def decide(session: OIDCSession[Identity], policy: Policy, *, now: int) -> Decision:
    """Decide by the times of the session only.

    Without a refresh token a session continues until its own end, even if the access token has
    expired. An access token is used for at least half of its lifetime, however short that is.
    """
    if now >= end_of(session, policy):
        return Decision.END
    expires_at = session.tokens.expires_at
    if expires_at is None or session.tokens.refresh_token is None:
        return Decision.KEEP
    issued_at = session.refreshed_at or session.created_at
    margin = max(0, min(policy.refresh_margin, (expires_at - issued_at) // 2))
    return Decision.REFRESH if now >= expires_at - margin else Decision.KEEP


async def resume(
    party: RelyingParty[Identity],
    coordinator: RefreshCoordinator[Identity],
    cookies: Mapping[str, str],
    *,
    active: bool,
) -> Resumed[Identity]:
    """The session of this request, refreshed when its access token is about to expire.

    A request that is not `active` does not count for the idle timeout. Raises SessionError when a
    store is unavailable, which never signs the user out.
    """
    lookup = await party.backend.lookup(cookies)
    if party.outbox:
        party.outbox.wake()
    if lookup is None:
        _advise_on_lost_session(party, cookies)
        return Resumed(None)
    if not party.is_ours(lookup.stored.session):
        return Resumed(None)
    stored, ended = lookup
    stored, ended = party.sessions.newest(stored), ended or party.sessions.ended(stored.session)
    if ended is not None:
        return _over(party, stored, ENDED_CODES[ended], ended)
    decision = decide(stored.session, party.policy, now=party.clock.now())
    if decision is Decision.END and _may_be_used_elsewhere(party, stored.session):
        stored = await _newest_anywhere(party, stored)
        decision = decide(stored.session, party.policy, now=party.clock.now())
    if decision is Decision.END:
        return _over(party, stored, Code.SESSION_EXPIRED, "expired")
    if decision is Decision.REFRESH:
        return await _refreshed(party, coordinator, stored, lookup.stored, active=active)
    if party.policy.idle_timeout is not None:
        stored = await _used(party, stored, active=active)
    if stored is lookup.stored:
        return Resumed(stored.session)
    return Resumed(party.codec.copied(stored.session), news(party, stored, lookup.stored))


async def refresh_now(
    party: RelyingParty[Identity],
    coordinator: RefreshCoordinator[Identity],
    cookies: Mapping[str, str],
) -> Resumed[Identity]:
    """The session of this request with new tokens, however long the old ones are still valid.

    Valid tokens that another request has got in the meantime are new, too. Raises SessionError:
    session.required without a session, session.refresh_postponed while the provider is unavailable.
    Raises ConfigurationError when the provider issued no refresh token. In the last two cases the
    session continues.
    """
    known = await current(party, cookies)
    if known is None:
        raise SessionError(Code.SESSION_REQUIRED, "there is no session to refresh")
    stored = party.sessions.newest(known)
    require_refresh_token(stored.session)

    def has_new_token(session: OIDCSession[Identity]) -> bool:
        is_new = _token_of(session) != _token_of(known.session)
        return is_new and not _has_expired(party, session)

    outcome = await coordinator.refresh(stored, has_new_token)
    if isinstance(outcome, Postponed):
        raise unavailable_until(party, outcome)
    return await _after(party, outcome, stored, known)


def _token_of(session: OIDCSession[Identity]) -> tuple[str, int | None]:
    """The access token, and when it was issued: a provider may return the same one again."""
    return session.tokens.access_token, session.refreshed_at


def require_refresh_token(session: OIDCSession[Identity]) -> None:
    """Raise ConfigurationError when the session has no refresh token."""
    if session.tokens.refresh_token is None:
        explanation = 'without a refresh token; providers issue one for the scope "offline_access"'
        raise ConfigurationError(Code.CONFIGURATION_INVALID, explanation)


async def current(
    party: RelyingParty[Identity], cookies: Mapping[str, str]
) -> StoredSession[Identity] | None:
    """The session of this request, unless it has ended. It is not refreshed."""
    return await _unless_ended(party, await party.backend.lookup(cookies))


async def current_by_id(
    party: RelyingParty[Identity], session_id: str
) -> StoredSession[Identity] | None:
    """The session with this id, unless it has ended; raises ConfigurationError without a store."""
    return await _unless_ended(party, await party.backend.lookup_by_id(session_id))


async def still_current(
    party: RelyingParty[Identity], stored: StoredSession[Identity]
) -> StoredSession[Identity] | None:
    """The current state of `stored`, unless it has ended."""
    return await _unless_ended(party, await party.backend.reread(stored))


async def _unless_ended(
    party: RelyingParty[Identity], lookup: Lookup[Identity] | None
) -> StoredSession[Identity] | None:
    """The session that was found, unless it has ended."""
    if lookup is None or not party.is_ours(lookup.stored.session):
        return None
    if lookup.ended or party.sessions.ended(lookup.stored.session):
        return None
    newest = party.sessions.newest(lookup.stored)
    if party.clock.now() >= end_of(newest.session, party.policy):
        if not _may_be_used_elsewhere(party, newest.session):
            return None
        newest = await _newest_anywhere(party, newest)
        if party.clock.now() >= end_of(newest.session, party.policy):
            return None
    return lookup.stored


async def has_ended(party: RelyingParty[Identity], stored: StoredSession[Identity]) -> bool:
    """Whether this process or the refresh record knows that the session has ended."""
    if party.sessions.ended(stored.session):
        return True
    record = await party.records.look(stored.session.id)
    return end_reason_in(record) is not None


async def cookie_changes(
    party: RelyingParty[Identity], pending: PendingCookie[Identity]
) -> Changes:
    """The changes of the session cookie, decided when the response starts.

    Between a request and its response another request, in any process, may have refreshed, replaced
    or ended the session. If the session has ended in the meantime, its cookie is not set. The
    cookie of an ended session is deleted, unless another request has refreshed the session or the
    user has signed out or in again: then another response sets the cookie. While a store is
    unavailable, nothing changes.
    """
    try:
        match pending:
            case NewSession(stored):
                return _set_new(party, stored)
            case SetCookie(stored):
                return await _set(party, stored)
            case ClearCookie(stored, reason):
                return await _clear(party, stored, reason)
            case SignedOut():
                return party.backend.clearing()
    except SessionError as error:
        party.announcer(refusal(EventName.SESSION_COOKIE_WITHHELD, error, party.clock.now()))
        return ()


def _set_new(party: RelyingParty[Identity], stored: StoredSession[Identity]) -> Changes:
    """The cookie of a new session; only this process can have ended it already."""
    if party.sessions.ended(stored.session):
        return ()
    return party.backend.cookies(party.sessions.newest(stored), party.clock.now())


async def _set(party: RelyingParty[Identity], stored: StoredSession[Identity]) -> Changes:
    lookup = await _now(party, stored)
    if lookup is None or lookup.ended is not None:
        return ()
    return party.backend.cookies(lookup.stored, party.clock.now())


async def _clear(
    party: RelyingParty[Identity], stored: StoredSession[Identity], reason: EndReason
) -> Changes:
    lookup = await _now(party, stored)
    # Another request ended it before, and its response changes the cookie.
    if lookup is None or lookup.ended == "signed_out":
        return ()
    if lookup.ended is None and lookup.stored.session.generation > stored.session.generation:
        return party.backend.cookies(lookup.stored, party.clock.now())
    if stored.reference is not None and lookup.ended is None:
        await end(party, stored, reason)  # its row must end too
    return party.backend.clearing()


async def _now(
    party: RelyingParty[Identity], stored: StoredSession[Identity]
) -> Lookup[Identity] | None:
    """The newest known state of the session, and why it has ended; None without one."""
    if party.sessions.ended(stored.session) == "signed_out":
        return Lookup(stored, "signed_out")
    lookup = await party.backend.reread(stored)
    ended = None if lookup is None else lookup.ended
    newest = stored if lookup is None else newer_of(stored, lookup.stored)
    if stored.reference is None or lookup is None:
        record = await party.records.look(stored.session.id)
        ended = end_reason_in(record) or ended
        newest = seen_at(party.session_in(record, newest) or newest, record.last_seen_at)
        if lookup is None and ended is None:
            return None
    # Checked last: it may have ended in this process during the other checks.
    return Lookup(party.sessions.newest(newest), party.sessions.ended(stored.session) or ended)


async def _newest_anywhere(
    party: RelyingParty[Identity], stored: StoredSession[Identity]
) -> StoredSession[Identity]:
    """The newest state of the session, also from other processes."""
    lookup = await _now(party, stored)
    return stored if lookup is None or lookup.ended is not None else lookup.stored


def _may_be_used_elsewhere(party: RelyingParty[Identity], session: OIDCSession[Identity]) -> bool:
    """Whether only the idle timeout has ended it: another process may have seen a later request."""
    absolute = replace(party.policy, idle_timeout=None)
    return party.clock.now() < end_of(session, absolute)


async def _used(
    party: RelyingParty[Identity], stored: StoredSession[Identity], *, active: bool
) -> StoredSession[Identity]:
    """The session with an updated `last_seen_at`, if the last update was long enough ago."""
    now, session, idle_timeout = party.clock.now(), stored.session, party.policy.idle_timeout
    if not active or idle_timeout is None:
        return stored
    if now - (session.last_seen_at or session.created_at) < idle_timeout // WRITES_PER_IDLE_TIMEOUT:
        return stored
    await party.backend.touch(stored, now)
    seen = seen_at(stored, now)
    party.sessions.keep(seen)
    if stored.reference is None:
        lifetime = max(0, session.expires_at - now) + CLOCK_MARGIN
        key, change = ("seen", session.id), Advance(last_seen_at=now)
        await party.outbox.write(
            key,
            lambda: party.records.advance(session.id, change, lifetime=lifetime),
            session_id=session.id,
            expires_at=session.expires_at,
        )
    return seen


def news(
    party: RelyingParty[Identity], stored: StoredSession[Identity], known: StoredSession[Identity]
) -> SetCookie[Identity] | None:
    """The cookie that a browser with the state `known` needs, if any."""
    if stored is known or party.backend.is_cookie_current(stored):
        return None
    return SetCookie(stored)


async def _refreshed(
    party: RelyingParty[Identity],
    coordinator: RefreshCoordinator[Identity],
    stored: StoredSession[Identity],
    known: StoredSession[Identity],
    *,
    active: bool,
) -> Resumed[Identity]:
    """The session with new tokens, for a browser with the state `known`.

    The tokens of an earlier refresh may have expired: a response may wait until the provider's keys
    are available, and an old cookie may arrive long after another process refreshed the session.
    """

    def is_valid(session: OIDCSession[Identity]) -> bool:
        return not _has_expired(party, session)

    outcome = await coordinator.refresh(stored, is_valid)
    return await _after(party, outcome, stored, known, active=active)


def _has_expired(party: RelyingParty[Identity], session: OIDCSession[Identity]) -> bool:
    """Whether the access token has expired and a refresh is possible."""
    expires_at = session.tokens.expires_at
    if expires_at is None or session.tokens.refresh_token is None:
        return False
    return party.clock.now() >= expires_at


async def _after(
    party: RelyingParty[Identity],
    outcome: RefreshOutcome[Identity],
    stored: StoredSession[Identity],
    known: StoredSession[Identity],
    *,
    active: bool = True,
) -> Resumed[Identity]:
    match outcome:
        case Refreshed(refreshed):
            seen = await _used(party, refreshed, active=active)
            return Resumed(party.codec.copied(seen.session), news(party, seen, known))
        case Ended(code, because, reason):
            reason = reason or party.sessions.ended(stored.session) or "signed_out"
            return _over(party, stored, code, reason, because)
        case Postponed():
            stored = party.sessions.newest(stored)
            # The user is active even while the provider does not respond.
            seen = await _used(party, stored, active=active)
            pending = news(party, seen, known)
            if party.clock.now() < (stored.session.tokens.expires_at or 0):
                return Resumed(party.codec.copied(seen.session), pending)
            return Resumed(None, pending, unavailable=unavailable_until(party, outcome))


def unavailable_until(party: RelyingParty[Identity], outcome: Postponed) -> SessionError:
    """The error of a request whose session cannot be refreshed right now."""
    retry_after = max(1, outcome.retry_at - party.clock.now())
    error = SessionError(
        Code.SESSION_REFRESH_POSTPONED,
        f"the access token has expired and cannot be refreshed right now: {outcome.because}",
        retry_after=retry_after,
    )
    error.is_announced = outcome.is_announced
    return error


def announce_end(
    party: RelyingParty[Identity], session: OIDCSession[Identity], code: Code, because: str
) -> None:
    """Announce the end of a session once, however many requests find it."""
    if party.sessions.announce_end(session.id):
        event = Event(EventName.SESSION_ENDED, party.clock.now(), code=code, explanation=because)
        party.announcer(replace(event, sub=session.sub, session_id=session.id))


def _over(
    party: RelyingParty[Identity],
    stored: StoredSession[Identity],
    code: Code,
    reason: EndReason,
    because: str = "",
) -> Resumed[Identity]:
    """The result for a session that has ended."""
    announce_end(party, stored.session, code, because)
    # After a sign-out the cookie is deleted already, or belongs to the next session.
    pending = None if reason == "signed_out" else ClearCookie(stored, reason)
    return Resumed(None, pending, ended=reason)


def _advise_on_lost_session(party: RelyingParty[Identity], cookies: Mapping[str, str]) -> None:
    """Log advice about a session cookie that led to no session."""
    name = party.names.session
    if not cookies.get(name):
        return
    if party.backend.fault(cookies) is Code.SESSION_SEAL_BROKEN:
        party.announcer.advise("cookie_secret", _SEALED_OTHERWISE.format(name=name))
    elif "session_store" in party.backend.in_memory and _should_be_here(party, cookies):
        party.announcer.advise("session_store", _MEMORY)


def _should_be_here(party: RelyingParty[Identity], cookies: Mapping[str, str]) -> bool:
    """Whether the session has not expired, and this process has no record of it."""
    hint = party.backend.hint(cookies, party.policy.issuer, party.policy.client_id)
    if hint is None or hint.previous.expires_at <= party.clock.now():
        return False
    return hint.previous.id not in party.sessions
