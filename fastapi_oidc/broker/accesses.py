"""The accesses in the session store: one row for each machine, and what becomes of it."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeAlias

from pydantic import ValidationError

from fastapi_oidc.broker.access import Access, AccessEvent, Approval, Limits, Refused
from fastapi_oidc.broker.route import Route
from fastapi_oidc.clock import TTLCache
from fastapi_oidc.errors import Code
from fastapi_oidc.events import EventName
from fastapi_oidc.flows.relying_party import RelyingParty, absolute_end_of
from fastapi_oidc.flows.sessions import ANY_EPOCH, Found, Live
from fastapi_oidc.oidc import OIDC
from fastapi_oidc.session.cells import Seen
from fastapi_oidc.session.model import OIDCSession
from fastapi_oidc.session.rows import Row
from fastapi_oidc.session.session_cookie import Copy

MOST_KNOWN: Final = 1000
"""Accesses whose rows are not opened again while they have not changed."""


_Known: TypeAlias = tuple[Live, Seen, Access]


class Accesses:
    """The accesses of one relying party, and what all their guests share.

    Each machine has one row, so it has one person.

    The session's own row is judged beside that of the access, so nothing here knows of sign-outs.
    Methods raise SessionError (session.store_unavailable) when the store fails.
    """

    def __init__(self, oidc: OIDC[Any, Any], routes: Mapping[str, Route], limits: Limits) -> None:
        self.party, self.routes, self.limits = oidc.runtime.party, routes, limits
        self.party.sessions.require_rows("keep the access that a person gives")
        self.grants, self._cells = oidc.runtime.engine.grants, self.party.sessions.cells
        self._known = TTLCache[str, _Known](self.party.clock, max_entries=MOST_KNOWN)

    async def of(self, digest: str) -> Access | None:
        """What the machine of a digest was given last; None after its withdrawal and its time."""
        seen, _ = await self._cells.see(f"access:{digest}")
        return self._read(seen.row)

    async def give(self, access: Access) -> Access:
        """Store the access, which ends with its session at the latest.

        It replaces what the person gave this machine before. Raises Refused, also (broker.taken)
        while another person's access of the machine lasts.
        """
        session = require_live(self.party, await self.party.sessions.judge(copy_of(access))).session
        ends = absolute_end_of(session, self.party.of(session).settings)
        access = access.model_copy(update={"until": min(access.until, ends)})
        before, ended = await self.of(digest(access.machine)), ""
        if before and not isinstance(await self.party.sessions.judge(copy_of(before)), Live):
            ended = before.id

        def given(row: Row, _: float) -> Row:
            found = self._read(row)
            if found and found.id != ended and not found.is_of(access):
                raise Refused(Code.BROKER_TAKEN, f"another person has given {access.machine!r} one")
            return _row(access)

        await self._cells.move(_key(access.machine), given)
        return access

    async def judge(self, access: Access) -> tuple[Access, Live]:
        """The access and its session, read together; raises Refused when either has ended."""
        copy, key = copy_of(access), _key(access.machine)
        known, before, current = self._known.get(access.id) or (None, None, None)
        found, seen = await self.party.sessions.judge_beside(copy, key, known, before)
        if current is None or current.waiting or seen is not before:  # what waits has its time
            current = self._read(seen.row)
        if self.party.clock.now() >= access.until:
            raise Refused(Code.BROKER_EXPIRED, "the access has reached its time")
        if current is None or current.id != access.id:
            raise Refused(Code.BROKER_WITHDRAWN, "the access was withdrawn or replaced")
        live = require_live(self.party, found)
        self._known.set(access.id, (live, seen, current), expires_at=access.until)
        return current, live

    async def change(self, access: Access, rule: Callable[[Access], Access]) -> None:
        """Apply a pure function, unless the access is withdrawn or replaced."""

        def changed(row: Row, _: float) -> Row:
            found = self._read(row)
            return _row(rule(found)) if found and found.id == access.id else row

        await self._cells.move(_key(access.machine), changed)

    async def asked(self, session: OIDCSession[Any], id: str) -> tuple[Access, Approval]:
        """What waits for the session's user under this id; raises Refused."""
        access = await self.of(id.partition("-")[0])
        if access and access.is_of(session):
            for call in access.waiting:
                if call.id == id:
                    return access, call
        raise Refused(Code.BROKER_NOT_APPROVED, "nothing waits for this person under this id")

    def announce(self, name: EventName, access: Access, told: str, **call: Any) -> None:
        """Tell what happened with the access; `call` has the members of a call's event."""
        call |= {"machine": access.machine, "access_id": access.id}
        told, now = f"{access.machine}: {told}", self.party.clock.now()
        person = access.sub, access.session_id
        self.party.announcer(AccessEvent(name, now, *person, explanation=told, **call))

    def _read(self, row: Row) -> Access | None:
        """The access in a row; None after its time, and for what another release has written."""
        now = self.party.clock.now()
        with suppress(ValidationError):
            found = Access.model_validate_json(row.content).at(now)
            return found if now < found.until else None
        return None


def copy_of(access: Access) -> Copy:
    """What leads to the session that gives the access: its id, and the keys of its revocations."""
    return Copy(access.session_id, access.keys, ANY_EPOCH, 0)


def require_live(party: RelyingParty, found: Found) -> Live:
    """The session; raises Refused when it has ended.

    A browser's idle timeout does not end what it gave.
    """
    serving = party.serving(found.session) if isinstance(found, Live) else None
    if not isinstance(found, Live) or serving is None:
        raise Refused(Code.BROKER_SIGNED_OUT, "the session that gave the access has ended")
    if party.clock.now() >= absolute_end_of(found.session, serving.settings):
        raise Refused(Code.BROKER_EXPIRED, "the session that gave the access has expired")
    return found


def new_id(machine: str) -> str:
    """The id of what a machine asks for, which leads to its row."""
    return f"{digest(machine)}-{secrets.token_urlsafe(12)}"


def digest(machine: str) -> str:
    """The beginning of such ids."""
    return hashlib.sha256(machine.encode()).hexdigest()


def _key(machine: str) -> str:
    return f"access:{digest(machine)}"


def _row(access: Access) -> Row:
    return Row(content=access.model_dump_json().encode(), expires_at=access.until)
