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
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.session.cookies import CookieChange
from fastapi_oidc.session.keeper import Found, Kept
from fastapi_oidc.session.model import Identity


@dataclass(frozen=True, slots=True)
class Goes(Generic[Identity]):
    """The session goes on as `kept`, which the browser does not have yet."""

    kept: Kept[Identity] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Over(Generic[Identity]):
    """The session that the browser came with is over."""

    kept: Kept[Identity] = field(repr=False)


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
            case Over(kept):
                return await _cleared(party, kept)
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
    newest = await newest_anywhere(party, kept)
    return party.keeper.cookies(newest, party.clock.now())


async def _cleared(party: RelyingParty[Identity], kept: Kept[Identity]) -> Changes:
    found = await _found(party, kept)
    if found is not None and found.ended == "signed_out":
        return ()
    newest = await newest_anywhere(party, kept)
    if newest.session.generation > kept.session.generation:
        return party.keeper.cookies(newest, party.clock.now())
    return party.keeper.clearing()


async def _found(party: RelyingParty[Identity], kept: Kept[Identity]) -> Found[Identity] | None:
    """What is kept of the session now."""
    reason = party.register.ended(kept.session)
    return await party.keeper.reread(kept) if reason is None else Found(kept, reason)


async def newest_anywhere(party: RelyingParty[Identity], kept: Kept[Identity]) -> Kept[Identity]:
    """The newest state of `kept` that this process knows or, in cookies, another one left."""
    newest = party.register.newest(kept)
    if party.shared is None or kept.reference is not None:
        return newest
    session = await party.shared.newest(kept.session.id)
    if session is None or session.generation <= newest.session.generation:
        return newest
    return Kept(session)
