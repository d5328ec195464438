"""The session cookie of an answer, decided when the answer is sent.

Between a request and its answer the session may have been refreshed, replaced or ended by another
request, here or in another process. So a request only notes where it stands, and the cookie follows
from that and from the newest state known at the moment of sending.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeAlias

from fastapi_oidc.errors import SessionError
from fastapi_oidc.flows.events import EventName, refused
from fastapi_oidc.flows.register import newer_of, used_at
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.session.cookies import CookieChange
from fastapi_oidc.session.keeper import Found, Kept
from fastapi_oidc.session.model import EndReason, Identity


@dataclass(frozen=True, slots=True)
class Goes(Generic[Identity]):
    """The session goes on as `kept`, which the browser does not have yet."""

    kept: Kept[Identity] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Over(Generic[Identity]):
    """The session that the browser came with is over; a row that it has goes with the answer.

    A row that is gone by then tells that the user signed out or in again meanwhile.
    """

    kept: Kept[Identity] = field(repr=False)
    reason: EndReason


@dataclass(frozen=True, slots=True)
class Begun(Generic[Identity]):
    """This request signed in."""

    kept: Kept[Identity] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Left:
    """This request signed out, or cleared the session."""


Changes: TypeAlias = tuple[CookieChange, ...]
Standing: TypeAlias = Goes[Identity] | Over[Identity] | Begun[Identity] | Left


async def cookie_changes(party: RelyingParty[Identity], standing: Standing[Identity]) -> Changes:
    """The changes of the session cookie that are right now.

    A session that ended meanwhile sets no cookie. One that is over clears it, unless the user
    signed out or in again meanwhile (then the cookie is that of another answer), or another request
    has refreshed it. Nothing changes when a store cannot tell: what the browser did not get, the
    register has for its next request.
    """
    try:
        match standing:
            case Begun(kept):
                return _set_new(party, kept)
            case Goes(kept):
                return await _set(party, kept)
            case Over(kept, reason):
                return await _cleared(party, kept, reason)
            case Left():
                return party.keeper.clearing()
    except SessionError as error:
        party.announcer(refused(EventName.SESSION_COOKIE_WITHHELD, error, party.clock.now()))
        return ()


def _set_new(party: RelyingParty[Identity], kept: Kept[Identity]) -> Changes:
    """Nobody but this process can have ended what no browser has yet, or its next request tells."""
    if party.register.ended(kept.session):
        return ()
    return party.keeper.cookies(party.register.newest(kept), party.clock.now())


async def _set(party: RelyingParty[Identity], kept: Kept[Identity]) -> Changes:
    found = await _found(party, kept)
    if found is None or found.ended is not None:
        return ()
    return party.keeper.cookies(found.kept, party.clock.now())


async def _cleared(
    party: RelyingParty[Identity], kept: Kept[Identity], reason: EndReason
) -> Changes:
    found = await _found(party, kept)
    # Somebody else has ended it before: the cookie is that of another answer.
    if found is None or found.ended == "signed_out":
        return ()
    if found.kept.session.generation > kept.session.generation:
        return party.keeper.cookies(found.kept, party.clock.now())
    if kept.reference is not None:
        await party.endings.end(party.keeper.previous(kept), reason)
        if party.register.ended(kept.session) == "signed_out":
            return ()
    return party.keeper.clearing()


async def _found(party: RelyingParty[Identity], kept: Kept[Identity]) -> Found[Identity] | None:
    """The newest state that is known of the session, and why it is over; None for a row that is
    gone."""
    found = Found(kept)
    if party.register.ended(kept.session) is None:
        reread = await party.keeper.reread(kept)
        if reread is None:
            return None
        found = Found(await newest_anywhere(party, kept), reread.ended)
    # Looked at last: it may have ended here while others were asked.
    return Found(found.kept, party.register.ended(kept.session) or found.ended)


async def newest_anywhere(party: RelyingParty[Identity], kept: Kept[Identity]) -> Kept[Identity]:
    """The newest state of `kept` that this process knows or, in cookies, another one left."""
    if party.shared is None or kept.reference is not None:
        return party.register.newest(kept)
    session = await party.shared.newest(kept.session.id)
    if session is not None:
        kept = newer_of(kept, Kept(session))
    is_use_kept = party.policy.idle_timeout is not None
    used = await party.shared.last_use(kept.session.id) if is_use_kept else None
    return used_at(party.register.newest(kept), used)
