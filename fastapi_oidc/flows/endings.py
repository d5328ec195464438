"""End sessions: the one of a browser, one by its id, or all of a user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fastapi_oidc.errors import SessionError
from fastapi_oidc.flows.events import EventName, refused
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.resume import end_of
from fastapi_oidc.session.endings import RevocationRecord, expiry_of_record
from fastapi_oidc.session.keeper import Kept
from fastapi_oidc.session.model import EndReason, Identity, OIDCSession, PreviousSession


async def end_here(
    party: RelyingParty[Identity], cookies: Mapping[str, str]
) -> Kept[Identity] | None:
    """The session that the browser had, in its newest state, which is over; None without one, and
    while the store is down that has it."""
    try:
        found = await party.keeper.read(cookies)
    except SessionError as error:
        return _end_as_told(party, cookies, error)
    if found is None:
        return None
    newest = party.register.newest(found.kept)
    await end(party, newest, "signed_out")
    return newest


async def clear(
    party: RelyingParty[Identity], cookies: Mapping[str, str], begun: Kept[Identity] | None
) -> None:
    """The session that the browser had is over, and the one that its request has `begun`."""
    if begun is not None:
        await end(party, begun, "signed_out")
    await end_here(party, cookies)


async def end(party: RelyingParty[Identity], kept: Kept[Identity], reason: EndReason) -> None:
    """The session is over here at once, and wherever its store or the endings are read: as soon as
    they can be written."""
    await end_previous(party, party.keeper.previous(kept), reason)


async def end_previous(
    party: RelyingParty[Identity], previous: PreviousSession, reason: EndReason
) -> None:
    """As `end`, of a session of which no more is known."""
    party.register.end(previous.id, reason, ends=previous.expires_at)
    await party.endings.end(previous, reason)


def _end_as_told(
    party: RelyingParty[Identity], cookies: Mapping[str, str], error: SessionError
) -> Kept[Identity] | None:
    """The session that the cookies have in themselves, which is over; the store is down."""
    told = party.keeper.told(cookies, party.policy.issuer, party.policy.client_id)
    if told is None:
        party.announcer(refused(EventName.SESSION_NOT_REMOVED, error, party.clock.now()))
        return None
    newest = None if told.kept is None else party.register.newest(told.kept)
    party.register.end(told.previous.id, "signed_out", ends=told.previous.expires_at)
    party.endings.postpone(told.previous, "signed_out", error)
    return newest


async def revoke(
    party: RelyingParty[Identity],
    *,
    sub: str | None = None,
    sid: str | None = None,
    session_id: str | None = None,
    reason: EndReason = "revoked",
) -> None:
    """From now on every session of this user, of this `sid` or with this id is over, everywhere.

    A later login is not affected. Raises ConfigurationError (configuration.store_missing) when
    nothing can keep that, ValueError unless exactly one is given, SessionError when a store is
    down.
    """
    if [sub, sid, session_id].count(None) != 2:
        raise ValueError("give one of sub, sid and session_id")
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
    await party.keeper.revoke(record)
    if session_id is not None:
        party.register.end(session_id, reason, ends=record.expires_at)


async def sessions_of(party: RelyingParty[Identity], sub: str) -> Sequence[OIDCSession[Identity]]:
    """The living sessions of a user, the newest login first.

    Raises ConfigurationError (configuration.store_missing) when the store cannot list them,
    SessionError when it is down.
    """
    policy, now = party.policy, party.clock.now()
    sessions = await party.keeper.sessions_of(policy.issuer, policy.client_id, sub)
    living = [session for session in sessions if now < end_of(session, policy)]
    return sorted(living, key=lambda session: -session.created_at)
