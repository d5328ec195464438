"""Find the session of a request; end it, keep it or refresh it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.flows.events import Event, EventName, refused
from fastapi_oidc.flows.outcomes import Resumed
from fastapi_oidc.flows.refresher import Over, Postponed, Refresher, Renewed
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.session.keeper import Kept
from fastapi_oidc.session.model import Identity, OIDCSession


class Decision(Enum):
    """What a request does with the session it came with."""

    KEEP = "keep"
    RENEW = "renew"
    END = "end"


def decide(session: OIDCSession[Identity], *, now: int, refresh_margin: int) -> Decision:
    """By the times of the session alone; `refresh_margin` in seconds.

    Without a refresh token a session lives to its own end: the access token's end is not the
    user's. An access token is used for half of its life at least, however short that is.
    """
    if now >= session.expires_at:
        return Decision.END
    expires_at = session.tokens.expires_at
    if expires_at is None or session.tokens.refresh_token is None:
        return Decision.KEEP
    issued_at = session.refreshed_at or session.created_at
    margin = min(refresh_margin, (expires_at - issued_at) // 2)
    return Decision.RENEW if now >= expires_at - margin else Decision.KEEP


async def resume(
    party: RelyingParty[Identity], refresher: Refresher[Identity], cookies: Mapping[str, str]
) -> Resumed[Identity]:
    """The session of this request, refreshed when its access token is about to expire.

    Raises SessionError when a store cannot be asked: that is an outage and never a logout.
    """
    found = await party.keeper.read(cookies)
    if found is None or not is_ours(party, found.kept.session):
        return Resumed(None)
    kept = found.kept
    now = party.clock.now()
    decision = decide(kept.session, now=now, refresh_margin=party.policy.refresh_margin)
    if decision is Decision.END:
        return await _ended(party, kept, Code.SESSION_EXPIRED)
    if found.ended is not None:
        return await _ended(party, kept, Code.SESSION_REVOKED)
    if decision is Decision.KEEP:
        return Resumed(kept.session)
    return await _refreshed(party, refresher, kept)


async def living(
    party: RelyingParty[Identity], cookies: Mapping[str, str]
) -> Kept[Identity] | None:
    """The session of this request as it is: neither over nor revoked, and not refreshed."""
    found = await party.keeper.read(cookies)
    if found is None or found.ended is not None or not is_ours(party, found.kept.session):
        return None
    return found.kept if party.clock.now() < found.kept.session.expires_at else None


def is_ours(party: RelyingParty[Identity], session: OIDCSession[Identity]) -> bool:
    """Whether it is of this provider and client, which the settings may have changed since."""
    return (session.issuer, session.client_id) == (party.policy.issuer, party.policy.client_id)


async def _refreshed(
    party: RelyingParty[Identity], refresher: Refresher[Identity], kept: Kept[Identity]
) -> Resumed[Identity]:
    match await refresher.renew(kept):
        case Renewed(successor):
            return Resumed(successor.session, party.keeper.cookies(successor, party.clock.now()))
        case Over(code):
            return await _ended(party, kept, code)
        case Postponed():
            expires_at = kept.session.tokens.expires_at or 0
            usable = party.clock.now() < expires_at
            return Resumed(kept.session if usable else None)


async def _ended(
    party: RelyingParty[Identity], kept: Kept[Identity], code: Code
) -> Resumed[Identity]:
    """No session any more."""
    session = kept.session
    now = party.clock.now()
    party.announcer(
        Event(EventName.SESSION_ENDED, now, sub=session.sub, session_id=session.id, code=code)
    )
    await forget(party, kept)
    # Who signed out has no cookie left of it, but maybe already that of the next session.
    changes = () if code is Code.SESSION_SIGNED_OUT else party.keeper.clearing()
    return Resumed(None, changes, ended=code)


async def end_previous(
    party: RelyingParty[Identity], refresher: Refresher[Identity], cookies: Mapping[str, str]
) -> Kept[Identity] | None:
    """The session that the browser had, which is over now; None while its store is down."""
    try:
        found = await party.keeper.read(cookies)
    except SessionError as error:
        party.announcer(refused(EventName.SESSION_NOT_REMOVED, error, party.clock.now()))
        return None
    if found is None:
        return None
    refresher.end(found.kept.session)
    await forget(party, found.kept)
    return found.kept


async def forget(party: RelyingParty[Identity], kept: Kept[Identity]) -> None:
    """Keep the session no longer; a row that cannot be removed now will expire."""
    try:
        await party.keeper.end(kept, "signed_out")
    except SessionError as error:
        party.announcer(refused(EventName.SESSION_NOT_REMOVED, error, party.clock.now()))
