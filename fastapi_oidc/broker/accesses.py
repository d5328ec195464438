"""The accesses in the session store: one row for each machine, and what becomes of it."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from typing import Any, Final

from pydantic import ValidationError

from fastapi_oidc.broker.access import Access, AccessEvent, Approval, Asked, Refused, Use
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

    async def withdraw(self, access: Access) -> None:
        """End the access."""
        await self._change(access, lambda _: None)

    async def record(self, access: Access, cost: Use) -> None:
        """Add what calls have cost."""
        await self._change(
            access, lambda found: found.model_copy(update={"use": found.use.and_of(cost)})
        )

    def waiting(self, access: Access, asked: Asked, body: bytes, seconds: float) -> Approval:
        """A call that can wait for its person."""
        id, until = digest(access.machine) + secrets.token_urlsafe(12), self.party.clock.now()
        return Approval(**dict(asked), id=id, until=until + int(seconds), body=body)

    async def ask(self, access: Access, call: Approval) -> None:
        """Let a call wait for its person."""
        now = self.party.clock.now()

        def asking(found: Access) -> Access:
            others = (each for each in found.waiting if now < each.until)
            return found.model_copy(update={"waiting": (*others, call)})

        await self._change(access, asking)
        self.announce(EventName.ACCESS_APPROVAL_ASKED, access, f"{call} waits", **call.facts)

    async def asked(self, session: OIDCSession[Any], id: str) -> tuple[Access, Approval]:
        """What waits for the session's user under this id; raises Refused."""
        access = await self.of(id[:_DIGEST_LENGTH])
        if access and access.is_of(session):
            for call in access.asks(self.party.clock.now()):
                if call.id == id:
                    return access, call
        raise Refused(Code.BROKER_NOT_APPROVED, "nothing waits for this person under this id")

    async def decide(self, session: OIDCSession[Any], id: str, *, approve: bool) -> None:
        """Record the decision of the session's user: a refused call waits no more."""
        access, asked = await self.asked(session, id)
        approved = [asked.model_copy(update={"is_approved": True})] if approve else []
        await self.settle(access, asked, *approved)
        told = f"{asked} {'approved' if approve else 'refused'}"
        self.announce(EventName.ACCESS_APPROVAL_DECIDED, access, told, **asked.facts)

    async def settle(self, access: Access, call: Approval, *instead: Approval) -> None:
        """Remove a call that waits no more, or replace it."""

        def settled(found: Access) -> Access:
            places = (instead if each.id == call.id else (each,) for each in found.waiting)
            return found.model_copy(update={"waiting": tuple(chain(*places))})

        await self._change(access, settled)

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

    async def _change(self, access: Access, rule: Callable[[Access], Access | None]) -> None:
        """Apply a rule, unless the access is withdrawn or replaced."""

        def changed(row: Row, _: float) -> Row:
            found = self._read(row)
            return _row(rule(found)) if found and found.id == access.id else row

        await self._cells.move(_key(access.machine), changed)

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


def digest(machine: str) -> str:
    """The beginning of the ids of what a machine asks for, so that they lead to its row."""
    return hashlib.sha256(machine.encode()).hexdigest()[:_DIGEST_LENGTH]


def _key(machine: str) -> str:
    return f"access:{digest(machine)}"


def _row(access: Access | None) -> Row:
    if access is None:
        return Row()
    return Row(content=access.model_dump_json().encode(), expires_at=access.until)
