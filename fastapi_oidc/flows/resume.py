"""Find the session of a request; end it, keep it or refresh it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import Final

from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.flows.events import Event, EventName
from fastapi_oidc.flows.outcomes import Resumed
from fastapi_oidc.flows.refresh_outcomes import Outcome, Postponed, Refused, Renewed
from fastapi_oidc.flows.refresher import Refresher
from fastapi_oidc.flows.relying_party import Policy, RelyingParty
from fastapi_oidc.flows.standing import Goes, Over, newest_anywhere
from fastapi_oidc.flows.use import idle_end_of, used
from fastapi_oidc.session.keeper import Kept
from fastapi_oidc.session.model import EndReason, Identity, OIDCSession

_CODES: Final[Mapping[EndReason, Code]] = {
    "expired": Code.SESSION_EXPIRED,
    "revoked": Code.SESSION_REVOKED,
    "ended_by_provider": Code.SESSION_REVOKED,
    "signed_out": Code.SESSION_SIGNED_OUT,
}
_REASONS: Final[Mapping[Code, EndReason]] = {
    Code.SESSION_EXPIRED: "expired",
    Code.SESSION_COOKIE_TOO_LARGE: "expired",
    Code.SESSION_SIGNED_OUT: "signed_out",
}


class Decision(Enum):
    """What a request does with the session it came with."""

    KEEP = "keep"
    RENEW = "renew"
    END = "end"


def decide(session: OIDCSession[Identity], policy: Policy, *, now: int) -> Decision:
    """By the times of the session alone.

    Without a refresh token a session lives to its own end: the access token's end is not the
    user's. An access token is used for half of its life at least, however short that is.
    """
    if now >= end_of(session, policy):
        return Decision.END
    expires_at = session.tokens.expires_at
    if expires_at is None or session.tokens.refresh_token is None:
        return Decision.KEEP
    issued_at = session.refreshed_at or session.created_at
    margin = max(0, min(policy.refresh_margin, (expires_at - issued_at) // 2))
    return Decision.RENEW if now >= expires_at - margin else Decision.KEEP


def end_of(session: OIDCSession[Identity], policy: Policy) -> int:
    """The second in which the session is over if no request comes before.

    A `session_lifetime` that was made shorter holds for older sessions too.
    """
    end = min(session.expires_at, session.created_at + policy.session_lifetime)
    idle_end = idle_end_of(session, policy)
    return end if idle_end is None else min(end, idle_end)


async def resume(
    party: RelyingParty[Identity],
    refresher: Refresher[Identity],
    cookies: Mapping[str, str],
    *,
    active: bool,
) -> Resumed[Identity]:
    """The session of this request, refreshed when its access token is about to expire.

    A request that is not `active` does not count for the idle timeout. Raises SessionError when a
    store cannot be asked: that is an outage and never a logout.
    """
    found = await party.keeper.read(cookies)
    if party.endings:
        party.endings.wake()
    if found is None or not is_ours(party, found.kept.session):
        return Resumed(None)
    if (reason := found.ended or party.register.ended(found.kept.session)) is not None:
        return await _ended(party, found.kept, _CODES[reason], reason)
    kept = party.register.seen(found.kept)
    decision = decide(kept.session, party.policy, now=party.clock.now())
    if decision is Decision.END and _may_be_used_elsewhere(party, kept.session):
        kept = await newest_anywhere(party, kept)
        decision = decide(kept.session, party.policy, now=party.clock.now())
    if decision is Decision.END:
        return await _ended(party, kept, Code.SESSION_EXPIRED, "expired")
    if decision is Decision.RENEW:
        return await _renewed(party, refresher, kept, found.kept, active=active)
    if party.policy.idle_timeout is not None:
        kept = await used(party, kept, active=active)
    if kept is found.kept:
        return Resumed(kept.session)
    # What others are given too, and what is going to be sealed, is nobody's to change.
    return Resumed(party.codec.copied(kept.session), _news(kept, found.kept))


async def refresh_now(
    party: RelyingParty[Identity], refresher: Refresher[Identity], cookies: Mapping[str, str]
) -> Resumed[Identity]:
    """The session of this request with new tokens, whatever the old ones' time.

    Raises SessionError: session.required without a session, session.refresh_postponed while the
    provider cannot be asked; ConfigurationError when the provider gave no refresh token. The
    session goes on then.
    """
    kept = await living(party, cookies)
    if kept is None:
        raise SessionError(Code.SESSION_REQUIRED, "there is no session to refresh")
    kept = party.register.newest(kept)
    if kept.session.tokens.refresh_token is None:
        explanation = 'without a refresh token; providers give one for the scope "offline_access"'
        raise ConfigurationError(Code.CONFIGURATION_INVALID, explanation)
    outcome = await refresher.renew(kept)
    if isinstance(outcome, Postponed):
        raise _postponed(party, outcome)
    return await _after(party, outcome, kept, kept)


async def living(
    party: RelyingParty[Identity], cookies: Mapping[str, str]
) -> Kept[Identity] | None:
    """The session of this request as it is: neither over nor ended, and not refreshed."""
    found = await party.keeper.read(cookies)
    if found is None or not is_ours(party, found.kept.session):
        return None
    if found.ended or party.register.ended(found.kept.session):
        return None
    session = party.register.newest(found.kept).session
    if party.clock.now() < end_of(session, party.policy):
        return found.kept
    if _may_be_used_elsewhere(party, session):
        session = (await newest_anywhere(party, found.kept)).session
    return None if party.clock.now() >= end_of(session, party.policy) else found.kept


def _may_be_used_elsewhere(party: RelyingParty[Identity], session: OIDCSession[Identity]) -> bool:
    """Whether the session is over for idleness alone: another process may have seen a use."""
    absolute = replace(party.policy, idle_timeout=None)
    return party.clock.now() < end_of(session, absolute)


def is_ours(party: RelyingParty[Identity], session: OIDCSession[Identity]) -> bool:
    """Whether it is of this provider and client, which the settings may have changed since."""
    policy = party.policy
    return session.issuer == policy.issuer and session.client_id == policy.client_id


def _news(used: Kept[Identity], known: Kept[Identity]) -> Goes[Identity] | None:
    """What the browser is to be told, which has `known`; a reference stays as it is."""
    return Goes(used) if used is not known and used.reference is None else None


async def _renewed(
    party: RelyingParty[Identity],
    refresher: Refresher[Identity],
    kept: Kept[Identity],
    known: Kept[Identity],
    *,
    active: bool,
) -> Resumed[Identity]:
    """The session with new tokens; renewed once more where that took longer than these live.

    An answer may be kept until the provider's keys can be had, and the successor that another
    process made may be found at the end of a long wait. The browser has `known`.
    """
    outcome = await refresher.renew(kept)
    if isinstance(outcome, Renewed) and _is_over(party, outcome.kept):
        kept = outcome.kept
        outcome = await refresher.renew(kept)
    return await _after(party, outcome, kept, known, active=active)


def _is_over(party: RelyingParty[Identity], kept: Kept[Identity]) -> bool:
    """Whether the access token is, where there can be another."""
    tokens = kept.session.tokens
    if tokens.expires_at is None or tokens.refresh_token is None:
        return False
    return party.clock.now() >= tokens.expires_at


async def _after(
    party: RelyingParty[Identity],
    outcome: Outcome[Identity],
    kept: Kept[Identity],
    known: Kept[Identity],
    *,
    active: bool = True,
) -> Resumed[Identity]:
    match outcome:
        case Renewed(successor):
            seen = await used(party, successor, active=active)
            return Resumed(party.codec.copied(seen.session), Goes(seen))
        case Refused(code, because):
            reason = party.register.ended(kept.session)
            return await _ended(party, kept, code, reason or _reason(code), because)
        case Postponed():
            # Whoever comes while the provider does not answer is no less active.
            seen = await used(party, kept, active=active)
            standing = _news(seen, known)
            if party.clock.now() < (kept.session.tokens.expires_at or 0):
                return Resumed(party.codec.copied(seen.session), standing)
            return Resumed(None, standing, unavailable=_postponed(party, outcome))


def _reason(code: Code) -> EndReason:
    """A callback of the application ends a session by any other SessionError."""
    default: EndReason = "revoked" if code.startswith("session.") else "ended_by_provider"
    return _REASONS.get(code, default)


def _postponed(party: RelyingParty[Identity], outcome: Postponed) -> SessionError:
    retry_after = max(1, outcome.retry_at - party.clock.now())
    error = SessionError(
        Code.SESSION_REFRESH_POSTPONED,
        f"the access token has expired and cannot be refreshed right now: {outcome.because}",
        retry_after=retry_after,
    )
    error.is_announced = outcome.is_announced
    return error


async def _ended(
    party: RelyingParty[Identity],
    kept: Kept[Identity],
    code: Code,
    reason: EndReason,
    because: str = "",
) -> Resumed[Identity]:
    """No session any more."""
    session, now = kept.session, party.clock.now()
    if party.register.is_news(session.id):
        event = Event(EventName.SESSION_ENDED, now, code=code, explanation=because)
        party.announcer(replace(event, sub=session.sub, session_id=session.id))
    # Of a session that the application ended no other process knows.
    if reason == "revoked" and code is not Code.SESSION_REVOKED:
        await party.endings.record(party.keeper.previous(kept), reason)
    # Who signed out has no cookie left of it, but maybe already that of the next session.
    return Resumed(None, None if reason == "signed_out" else Over(kept, reason), ended=reason)
