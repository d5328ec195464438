"""The accesses in the session store: a row for each machine, and a list for each person."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from pydantic import ValidationError

from fastapi_oidc.broker.access import Access, AccessEvent, Refused
from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.events import EventName
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.revocation import absolute_end_of
from fastapi_oidc.flows.sessions import ANY_EPOCH, Found, Live
from fastapi_oidc.session.lists import ids_in, with_id
from fastapi_oidc.session.model import OIDCSession
from fastapi_oidc.session.revocations import user_key
from fastapi_oidc.session.rows import Row
from fastapi_oidc.session.session_cookie import Copy

Rule: TypeAlias = Callable[..., Access | None]
"""A pure function: the access as it is, and arguments -> as it is to be, None if it has ended."""


class Accesses:
    """The accesses of one relying party. Each machine has one row, so it has one person.

    Methods raise SessionError (session.store_unavailable) when the store fails.
    """

    def __init__(self, party: RelyingParty[Any]) -> None:
        party.sessions.require_rows("keep the access that a person gives")
        self.party, self._cells = party, party.sessions.cells

    async def give(self, access: Access) -> None:
        """Store the access; it replaces what the person gave this machine before.

        Raises Refused (broker.taken) while another person's access of the machine lasts.
        """
        key, person = _key(access.machine), (access.issuer, access.sub)
        before = _read((await self._cells.see(key))[0].row)
        ended = before.id if before and await self._has_ended(before) else ""

        def given(row: Row, _: float) -> Row:
            found = _read(row)
            is_free = found is None or _is_of(found, *person) or found.id == ended
            return _row(access) if is_free else row

        # Listed first: an access that is not listed could not be withdrawn.
        await self._cells.change(
            _list_key(*person),
            lambda ids: with_id(ids, access.machine, access.until, self.party.clock.now()),
        )
        if _read((await self._cells.move(key, given)).row) != access:
            raise Refused(Code.BROKER_TAKEN, f"another person has given {access.machine!r} access")

    async def judge(self, access: Access) -> tuple[Access, Live[Any]]:
        """The access and its session, read together; raises Refused when either has ended."""
        copy, key = copy_of(access.session_id, access.keys), _key(access.machine)
        found, [seen] = await self.party.sessions.judge_beside(copy, key)
        current = _read(seen.row)
        if self.party.clock.now() >= access.until:  # the store forgets it then
            raise Refused(Code.BROKER_EXPIRED, "the access has reached its time")
        if current is None or current.id != access.id:
            raise Refused(Code.BROKER_WITHDRAWN, "the access was withdrawn or replaced")
        return current, require_live(self.party, found)

    async def change(self, access: Access, rule: Rule, *arguments: Any) -> Access | None:
        """The access after the pure function `rule`; None if it is withdrawn or replaced."""

        def changed(row: Row, _: float) -> Row:
            found = _read(row)
            return _row(rule(found, *arguments)) if found and found.id == access.id else row

        after = _read((await self._cells.move(_key(access.machine), changed)).row)
        return after if after and after.id == access.id else None

    async def of(self, session: OIDCSession[Any]) -> Sequence[Access]:
        """What the session's user has given and has not ended by itself, the oldest first."""
        now, person = self.party.clock.now(), (session.issuer, session.sub)
        (ids,) = await self._cells.read([_list_key(*person)])
        keys = list(map(_key, ids_in(ids, now)))
        values = await self._cells.read(keys) if keys else ()
        found = [_read(self._cells.seen(*each).row) for each in zip(keys, values, strict=True)]
        return [each for each in found if each and _is_of(each, *person) and now < each.until]

    def announce(self, name: EventName, access: Access, told: str, **call: Any) -> None:
        """Tell what happened with the access; `call` has the members of a call's event."""
        event = AccessEvent(
            name,
            self.party.clock.now(),
            sub=access.sub,
            session_id=access.session_id,
            explanation=f"{access.machine}: {told}",
            machine=access.machine,
            access_id=access.id,
            **call,
        )
        self.party.announcer(event)

    async def _has_ended(self, access: Access) -> bool:
        try:
            await self.judge(access)
        except Refused:
            return True
        return False


def copy_of(session_id: str, keys: tuple[str, ...]) -> Copy[Any]:
    """What leads to a session that gives access: its id, and the keys of its revocations."""
    return Copy(session_id, keys, ANY_EPOCH, 0)


def require_live(party: RelyingParty[Any], found: Found[Any]) -> Live[Any]:
    """The session; raises Refused when it has ended.

    A browser's idle timeout does not end what it gave.
    """
    serving = party.serving(found.session) if isinstance(found, Live) else None
    if not isinstance(found, Live) or serving is None:
        raise Refused(Code.BROKER_SIGNED_OUT, "the session that gave the access has ended")
    if party.clock.now() >= absolute_end_of(found.session, serving.settings):
        raise Refused(Code.BROKER_EXPIRED, "the session that gave the access has expired")
    return found


def _is_of(access: Access, issuer: str, sub: str) -> bool:
    return (access.issuer, access.sub) == (issuer, sub)


def _key(machine: str) -> str:
    return f"access:{hashlib.sha256(machine.encode()).hexdigest()[:43]}"


def _list_key(issuer: str, sub: str) -> str:
    return f"access-of:{user_key(issuer, '', sub)}"


def _read(row: Row) -> Access | None:
    """The access in a row; None if nobody has given one."""
    try:
        return Access.model_validate_json(row.content) if row.content else None
    except ValidationError:
        explanation = "another release of this library wrote the access"
        raise SessionError(Code.SESSION_STORE_UNAVAILABLE, explanation) from None


def _row(access: Access | None) -> Row:
    if access is None:
        return Row()
    return Row(content=access.model_dump_json().encode(), expires_at=access.until)
