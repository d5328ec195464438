"""The accesses in the session store: one row for each machine, and what becomes of it."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from pydantic import ValidationError

from fastapi_oidc.broker.access import Access, AccessEvent, Approval, Asked, Refused, Use
from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.events import EventName
from fastapi_oidc.flows.relying_party import RelyingParty, absolute_end_of
from fastapi_oidc.flows.sessions import ANY_EPOCH, Found, Live
from fastapi_oidc.session.model import OIDCSession
from fastapi_oidc.session.rows import Row
from fastapi_oidc.session.session_cookie import Copy

Rule: TypeAlias = Callable[[Access | None], Access | None]
"""A pure function: the access of a machine as it is -> as it is to be. It may raise Refused."""

MOST_WAITING: Final = 4
"""Calls of one access that wait for an approval at a time: their bodies are in its row."""

_DIGEST_LENGTH: Final = 43
_ID: Final = re.compile(rf"[0-9a-f]{{{_DIGEST_LENGTH}}}[\w-]{{16}}", re.ASCII)


class Accesses:
    """The accesses of one relying party. Each machine has one row, so it has one person.

    The session's own row is judged beside that of the access, so nothing here knows of sign-outs.
    Each rule that is applied to a row finds its own result unchanged, because a store repeats what
    it has written if it loses the reply.
    Methods raise SessionError (session.store_unavailable) when the store fails.
    """

    def __init__(self, party: RelyingParty) -> None:
        party.sessions.require_rows("keep the access that a person gives")
        self.party, self._cells = party, party.sessions.cells

    async def of(self, machine: str) -> Access | None:
        """What the machine was given last; None after its withdrawal and its time."""
        return await self._find(_digest(machine))

    async def give(self, access: Access) -> Access:
        """Store the access, which ends with its session at the latest.

        It replaces what the person gave this machine before. Raises Refused, also (broker.taken)
        while another person's access of the machine lasts.
        """
        session = require_live(self.party, await self.party.sessions.judge(copy_of(access))).session
        ends = absolute_end_of(session, self.party.of(session).settings)
        access = _with(access, until=min(access.until, ends))
        before, ended = await self._find(_digest(access.machine)), ""
        if before and not isinstance(await self.party.sessions.judge(copy_of(before)), Live):
            ended = before.id  # whichever registration serves its session

        def given(found: Access | None) -> Access:
            if found is None or found.id == ended or _is_of(found, access):
                return access
            raise Refused(Code.BROKER_TAKEN, f"another person has given {access.machine!r} access")

        await self._move(access.machine, given)
        return access

    async def judge(self, access: Access) -> tuple[Access, Live]:
        """The access and its session, read together; raises Refused when either has ended."""
        copy, key = copy_of(access), _key(_digest(access.machine))
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

    async def record(self, access: Access, server: str, cost: Use) -> None:
        """Store what all calls have cost in `server` so far, the application that serves them."""

        def recorded(found: Access) -> Access:
            others = [each for each in found.costs if each[0] != server]
            stored = dict(found.costs).get(server, Use())
            return _with(found, costs=(*others, (server, max(stored, cost))))

        await self._change(access, recorded)

    def approval_of(self, access: Access, asked: Asked, body: bytes, seconds: int) -> Approval:
        """A call that can wait for its person."""
        return Approval(
            **dict(asked),
            id=_digest(access.machine) + secrets.token_urlsafe(12),
            machine=access.machine,
            until=self.party.clock.now() + seconds,
            body=body,
        )

    async def ask(self, access: Access, approval: Approval) -> None:
        """Let a call wait for its person; raises Refused (broker.busy)."""
        now = self.party.clock.now()

        def asking(found: Access) -> Access:
            if approval.id in (each.id for each in found.waiting):
                return found
            waiting = [each for each in found.waiting if now < each.until]
            if len(waiting) >= MOST_WAITING:
                raise Refused(Code.BROKER_BUSY, f"{MOST_WAITING} calls wait for an approval")
            return _with(found, waiting=(*waiting, approval))

        await self._change(access, asking)

    async def asked(self, session: OIDCSession[Any], id: str) -> tuple[Access, Approval]:
        """What waits for the session's user under this id; raises Refused."""
        if not _ID.fullmatch(id):
            raise _nothing_waits()
        return self._waiting(await self._find(id[:_DIGEST_LENGTH]), session, id)

    async def decide(self, session: OIDCSession[Any], id: str, *, approve: bool) -> None:
        """Record the decision of the session's user; the first one counts. Raises Refused."""
        decision = secrets.token_urlsafe(12)

        def decided(found: Access | None) -> Access:
            if found is not None and decision in (each.decision for each in found.waiting):
                return found
            access, asked = self._waiting(found, session, id)
            made = asked.model_copy(update={"decision": decision, "is_approved": approve})
            return _with(access, waiting=(*_others(access, id), made))

        access, asked = await self.asked(session, id)
        await self._move(access.machine, decided)
        told = f"{asked.method} {asked.name}{asked.path} {'approved' if approve else 'refused'}"
        self.announce(EventName.ACCESS_APPROVAL_DECIDED, access, told, **asked.facts)

    async def forget(self, access: Access, approval: Approval) -> None:
        """Remove a call that waits no more."""
        await self._change(access, lambda found: _with(found, waiting=_others(found, approval.id)))

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

    def _waiting(
        self, access: Access | None, person: OIDCSession[Any], id: str
    ) -> tuple[Access, Approval]:
        if access is not None and _is_of(access, person):
            for asked in undecided(access, self.party.clock.now()):
                if asked.id == id:
                    return access, asked
        raise _nothing_waits()

    async def _find(self, digest: str) -> Access | None:
        return self._read((await self._cells.see(_key(digest)))[0].row)

    async def _change(self, access: Access, rule: Callable[[Access], Access | None]) -> None:
        """Apply `rule`, unless the access is withdrawn or replaced."""
        await self._move(
            access.machine,
            lambda found: rule(found) if found and found.id == access.id else found,
        )

    async def _move(self, machine: str, rule: Rule) -> None:
        def moved(row: Row, _: float) -> Row:
            before = self._read(row)
            after = rule(before)
            return row if after == before else _row(after)

        await self._cells.move(_key(_digest(machine)), moved)

    def _read(self, row: Row) -> Access | None:
        """The access in a row; None after its time, and if nobody has given one."""
        try:
            found = Access.model_validate_json(row.content) if row.content else None
        except ValidationError:
            explanation = "another release of this library wrote the access"
            raise SessionError(Code.SESSION_STORE_UNAVAILABLE, explanation) from None
        return found if found and self.party.clock.now() < found.until else None


def undecided(access: Access, now: int) -> list[Approval]:
    """The calls about which the person can decide, the oldest first."""
    return [each for each in access.waiting if not each.decision and now < each.until]


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


def _is_of(access: Access, person: Access | OIDCSession[Any]) -> bool:
    return (access.issuer, access.sub) == (person.issuer, person.sub)


def _others(access: Access, id: str) -> tuple[Approval, ...]:
    return tuple(each for each in access.waiting if each.id != id)


def _nothing_waits() -> Refused:
    return Refused(Code.BROKER_NOT_APPROVED, "nothing waits for this person under this id")


def _with(access: Access, **members: Any) -> Access:
    return access.model_copy(update=members)


def _digest(machine: str) -> str:
    """The beginning of the ids of what a machine asks for, so that they lead to its row."""
    return hashlib.sha256(machine.encode()).hexdigest()[:_DIGEST_LENGTH]


def _key(digest: str) -> str:
    return f"access:{digest}"


def _row(access: Access | None) -> Row:
    if access is None:
        return Row()
    return Row(content=access.model_dump_json().encode(), expires_at=access.until)
