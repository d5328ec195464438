"""A session's own access token, refreshed if it does not meet the caller's need."""

from __future__ import annotations

from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.flows.local_sessions import Postponed
from fastapi_oidc.flows.refresh import Ended, RefreshCoordinator, Refreshed, RefreshOutcome
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.resume import (
    ENDED_CODES,
    announce_end,
    require_refresh_token,
    unavailable_until,
)
from fastapi_oidc.protocol.issued_token import IssuedToken, Needed
from fastapi_oidc.session.backend import StoredSession
from fastapi_oidc.session.model import Identity, OIDCSession


def own_token(session: OIDCSession[Identity]) -> IssuedToken:
    """The session's own access token; raises ConfigurationError if the session has none."""
    tokens = session.tokens
    if not tokens.access_token:
        explanation = "before_session_persist removes the access token from sessions"
        raise ConfigurationError(Code.CONFIGURATION_INVALID, explanation)
    return IssuedToken(
        value=tokens.access_token,
        expires_at=tokens.expires_at,
        scope=tokens.scope,
        token_type=tokens.token_type,
        issued_at=session.refreshed_at or session.created_at,
        dpop_key=tokens.dpop_key,
    )


async def refresh_if_needed(
    party: RelyingParty[Identity],
    coordinator: RefreshCoordinator[Identity],
    stored: StoredSession[Identity],
    needed: Needed,
) -> StoredSession[Identity]:
    """The session with an access token that meets `needed`, refreshed if necessary.

    While no refresh is possible, a token that has not expired is used. Raises SessionError when the
    session has ended, or with session.refresh_postponed while the provider is unavailable. Raises
    ConfigurationError when the provider issued no refresh token.
    """
    stored = party.sessions.newest(stored)
    if needed.is_met_by(own_token(stored.session), party.clock.now()):
        return stored
    if not stored.session.tokens.refresh_token and _serves(party, stored, needed):
        return stored
    require_refresh_token(stored.session)
    outcome = await coordinator.refresh(
        stored, lambda session: needed.is_met_by(own_token(session), party.clock.now())
    )
    stored = party.sessions.newest(stored)
    if isinstance(outcome, Postponed) and _serves(party, stored, needed):
        return stored
    return session_after(party, stored, outcome)


def session_after(
    party: RelyingParty[Identity],
    stored: StoredSession[Identity],
    outcome: RefreshOutcome[Identity],
) -> StoredSession[Identity]:
    """The session after a refresh of `stored`; raises SessionError without one."""
    match outcome:
        case Refreshed(refreshed):
            return refreshed
        case Ended(code, because, reason):
            announce_end(party, stored.session, code, because)
            reason = reason or party.sessions.ended(stored.session) or "signed_out"
            raise SessionError(ENDED_CODES[reason], "the session has ended")
        case Postponed():
            raise unavailable_until(party, outcome)


def _serves(party: RelyingParty[Identity], stored: StoredSession[Identity], needed: Needed) -> bool:
    return needed.is_served_by(own_token(stored.session), party.clock.now())
