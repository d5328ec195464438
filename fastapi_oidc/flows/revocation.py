"""End sessions: a browser's, one by its id, or all of a user. Revoke their tokens (RFC 7009)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from fastapi_oidc.errors import Code, OIDCError, SessionError
from fastapi_oidc.events import Event, EventName, refusal
from fastapi_oidc.flows.relying_party import Policy, RelyingParty
from fastapi_oidc.protocol.downstream import DownstreamAPI
from fastapi_oidc.protocol.issued_token import IssuedToken
from fastapi_oidc.session.backend import StoredSession
from fastapi_oidc.session.model import EndReason, Identity, OIDCSession, PreviousSession
from fastapi_oidc.session.records import Advance, Phase, RefreshRecord
from fastapi_oidc.session.revocations import CLOCK_MARGIN, RevocationRecord, expiry_of_record

TOKEN_REVOCATION_SECONDS: Final = 2.0
"""Seconds that a sign-out waits for the provider to revoke a token, after the session's end."""


async def end(
    party: RelyingParty[Identity], stored: StoredSession[Identity], reason: EndReason
) -> None:
    """End the session: immediately in this process, and elsewhere once the end is recorded."""
    await end_previous(party, party.backend.previous(stored), reason)


async def end_previous(
    party: RelyingParty[Identity], previous: PreviousSession, reason: EndReason
) -> None:
    """Like `end`, for a session of which only the names and the end are known."""
    party.sessions.end(previous.id, reason, expires_at=previous.expires_at)
    await party.outbox.write(
        previous.id,
        lambda: _write_end(party, previous, reason),
        session_id=previous.id,
        expires_at=previous.expires_at,
        ends=True,
    )


async def end_current(
    party: RelyingParty[Identity], cookies: Mapping[str, str]
) -> StoredSession[Identity] | None:
    """End the session of these cookies and return its newest state, None if it is unknown."""
    try:
        lookup = await party.backend.lookup(cookies)
    except SessionError as error:
        return _end_by_hint(party, cookies, error)
    if lookup is None:
        return None
    newest = await _newest_tokens(party, lookup.stored)
    await end(party, newest, "signed_out")
    return newest


async def revoke(
    party: RelyingParty[Identity],
    *,
    sub: str | None = None,
    sid: str | None = None,
    session_id: str | None = None,
    reason: EndReason = "revoked",
) -> None:
    """End all sessions of this user, of this `sid` or with this id, in all processes.

    Later logins are not affected. Raises ValueError unless exactly one argument is set,
    ConfigurationError (configuration.store_missing) without a store of revocation records,
    SessionError when a store is down.
    """
    if [sub, sid, session_id].count(None) != 2:
        raise ValueError("pass exactly one of sub, sid and session_id")
    now = party.clock.now()
    record = RevocationRecord(
        issuer=party.policy.issuer,
        client_id=party.policy.client_id,
        sub=sub,
        sid=sid,
        session_id=session_id,
        issued_at=now,
        expires_at=expiry_of_record(now, party.policy.session_lifetime),
        made_by="application",
        reason=reason,
    )
    await party.backend.revoke(record)
    if session_id is not None:
        party.sessions.end(session_id, reason, expires_at=record.expires_at)


async def sessions_of(party: RelyingParty[Identity], sub: str) -> Sequence[OIDCSession[Identity]]:
    """The sessions of a user that have not ended, the newest login first.

    Raises ConfigurationError (configuration.store_missing) when the store cannot list them,
    SessionError when it is down.
    """
    policy, now = party.policy, party.clock.now()
    sessions = await party.backend.sessions_of(policy.issuer, policy.client_id, sub)
    active = [session for session in sessions if now < end_of(session, policy)]
    return sorted(active, key=lambda session: -session.created_at)


def end_of(session: OIDCSession[Identity], policy: Policy) -> int:
    """The second at which the session ends if there are no further requests.

    A shortened `session_lifetime` applies to existing sessions too.
    """
    end = min(session.expires_at, session.created_at + policy.session_lifetime)
    if policy.idle_timeout is None:
        return end
    return min(end, idle_end_of(session, policy.idle_timeout))


def idle_end_of(session: OIDCSession[Identity], idle_timeout: int) -> int:
    """The second at which the idle timeout ends the session."""
    return (session.last_seen_at or session.created_at) + idle_timeout


async def revoke_refresh_token(
    party: RelyingParty[Identity], session: OIDCSession[Identity]
) -> bool:
    """Revoke the refresh token; False without one, without an endpoint, or if it is refused.

    A refusal is announced. Raises ProviderError while the metadata is unavailable.
    """
    metadata = await party.provider.metadata()
    refresh_token = session.tokens.refresh_token
    if refresh_token is None or metadata.revocation_endpoint is None:
        return False
    try:
        await party.provider.revoke(refresh_token, "refresh_token")
    except OIDCError as error:
        announce_failure(party, session, error)
        return False
    return True


async def revoke_tokens(party: RelyingParty[Identity], session: OIDCSession[Identity]) -> bool:
    """Like `revoke_refresh_token`; also revokes the session's tokens for other APIs."""
    revoking = revoke_refresh_token(party, session)
    if not party.downstream_apis:
        return await revoking
    revoked, _ = await asyncio.gather(revoking, _revoke_api_tokens(party, session))
    return revoked


async def _revoke_api_tokens(party: RelyingParty[Identity], session: OIDCSession[Identity]) -> None:
    ids = [record_id(session.id, api) for api in party.downstream_apis]
    ended = [_end_api_token(party, id, session.expires_at) for id in ids]
    tokens = [token for token in await asyncio.gather(*ended) if token is not None]
    await asyncio.gather(*(revoke_access_token(party, session, token) for token in tokens))


async def _end_api_token(
    party: RelyingParty[Identity], id: str, expires_at: int
) -> IssuedToken | None:
    """End the record and return its token, None without one.

    A token request under way finds the end and revokes its token.
    """
    lifetime = max(0, expires_at - party.clock.now()) + CLOCK_MARGIN
    try:
        await party.records.advance(id, Advance(phase=Phase.ENDED), lifetime=lifetime)
        return token_in(await party.records.look(id))
    except SessionError:
        return None


async def revoke_access_token(
    party: RelyingParty[Identity], session: OIDCSession[Identity], token: IssuedToken
) -> None:
    """Best effort: revoke a token for another API (RFC 7009 2). A refusal is announced."""
    try:
        await party.provider.revoke(token.value, "access_token")
    except OIDCError as error:
        if error.code is not Code.PROVIDER_ENDPOINT_MISSING:
            announce_failure(party, session, error)


def announce_failure(
    party: RelyingParty[Identity], session: OIDCSession[Identity] | None, error: Exception
) -> None:
    """Announce that the provider was not informed of the session's end."""
    event = Event(EventName.LOGOUT_REVOCATION_FAILED, party.clock.now())
    if isinstance(error, OIDCError):
        event = refusal(event.name, error, event.at)
    party.announcer(replace(event, session_id=None if session is None else session.id))


async def _write_end(
    party: RelyingParty[Identity], previous: PreviousSession, reason: EndReason
) -> None:
    """Record the end; the refresh record first, so that no refresh under way stores anything."""
    lifetime = max(0, previous.expires_at - party.clock.now()) + CLOCK_MARGIN
    change = Advance(phase=Phase.ENDED, data=reason.encode())
    try:
        await party.records.advance(previous.id, change, lifetime=lifetime)
    finally:
        await party.backend.end(previous, reason)


async def _newest_tokens(
    party: RelyingParty[Identity], stored: StoredSession[Identity]
) -> StoredSession[Identity]:
    """The newest state of the session, with the tokens to revoke."""
    newest = party.sessions.newest(stored)
    if stored.reference is not None:
        return newest
    try:
        record = await party.records.look(stored.session.id)
        return party.session_in(record, newest) or newest
    except SessionError:
        return newest


def _end_by_hint(
    party: RelyingParty[Identity], cookies: Mapping[str, str], error: SessionError
) -> StoredSession[Identity] | None:
    """End the session of the cookies' hint, because its store is down."""
    hint = party.backend.hint(cookies, party.policy.issuer, party.policy.client_id)
    if hint is None:
        party.announcer(refusal(EventName.SESSION_NOT_REMOVED, error, party.clock.now()))
        return None
    newest = None if hint.stored is None else party.sessions.newest(hint.stored)
    previous = hint.previous
    party.sessions.end(previous.id, "signed_out", expires_at=previous.expires_at)
    party.outbox.postpone(
        previous.id,
        lambda: _write_end(party, previous, "signed_out"),
        error,
        session_id=previous.id,
        expires_at=previous.expires_at,
    )
    return newest


def record_id(session_id: str, api: DownstreamAPI) -> str:
    """The name of the record of a session's tokens for another API."""
    return f"{session_id}/{api.key(api.grant)}"


def token_in(record: RefreshRecord) -> IssuedToken | None:
    """The token in such a record, even if it has expired; None before the first one."""
    return IssuedToken.decode(record.session) if record.session else None
