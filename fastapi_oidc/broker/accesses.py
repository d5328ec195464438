"""The accesses in the session store: one row for each machine, and what becomes of it."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from pydantic import ValidationError

from fastapi_oidc.broker.access import Access, AccessEvent, Approval, Refused
from fastapi_oidc.errors import Code
from fastapi_oidc.events import EventName
from fastapi_oidc.flows.relying_party import RelyingParty, absolute_end_of
from fastapi_oidc.flows.sessions import ANY_EPOCH, Found, Live
from fastapi_oidc.session.model import OIDCSession
from fastapi_oidc.session.rows import Row
from fastapi_oidc.session.session_cookie import Copy

_DIGEST_LENGTH: Final = 43


class Accesses:
    """The accesses of one relying party. Each machine has one row, so it has one person.

    The session's own row is judged beside that of the access, so nothing here knows of sign-outs.
    Methods raise SessionError (session.store_unavailable) when the store fails.
    """

    def __init__(self, party: RelyingParty) -> None:
        party.sessions.require_rows("keep the access that a person gives")
        self.party, self._cells = party, party.sessions.cells

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
        found, [seen] = await self.party.sessions.judge_beside(copy, key)
        current = self._read(seen.row)
        if self.party.clock.now() >= access.until:
            raise Refused(Code.BROKER_EXPIRED, "the access has reached its time")
        if current is None or current.id != access.id:
            raise Refused(Code.BROKER_WITHDRAWN, "the access was withdrawn or replaced")
        return current, require_live(self.party, found)

    async def change(self, access: Access, rule: Callable[[Access], Access | None]) -> None:
        """Apply a pure function, unless the access is withdrawn or replaced; None ends it."""

        def changed(row: Row, _: float) -> Row:
            found = self._read(row)
            return _row(rule(found)) if found and found.id == access.id else row

        await self._cells.move(_key(access.machine), changed)

    async def asked(self, session: OIDCSession[Any], id: str) -> tuple[Access, Approval]:
        """What waits for the session's user under this id; raises Refused."""
        access = await self.of(id[:_DIGEST_LENGTH])
        if access and access.is_of(session):
            for call in access.asks(self.party.clock.now()):
                if call.id == id:
                    return access, call
        raise Refused(Code.BROKER_NOT_APPROVED, "nothing waits for this person under this id")

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

    def _read(self, row: Row) -> Access | None:
        """The access in a row; None after its time, and for what another release has written."""
        with suppress(ValidationError):
            found = Access.model_validate_json(row.content)
            return found if self.party.clock.now() < found.until else None
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
    return digest(machine) + secrets.token_urlsafe(12)


def digest(machine: str) -> str:
    """The beginning of such ids."""
    return hashlib.sha256(machine.encode()).hexdigest()[:_DIGEST_LENGTH]


def _key(machine: str) -> str:
    return f"access:{digest(machine)}"


def _row(access: Access | None) -> Row:
    if access is None:
        return Row()
    return Row(content=access.model_dump_json().encode(), expires_at=access.until)
