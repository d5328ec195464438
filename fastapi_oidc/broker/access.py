"""Access that a person gives to a machine: its values, and its row in the session store."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from pydantic import ConfigDict, Field, ValidationError

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.events import Event, EventName
from fastapi_oidc.flows.sessions import ANY_EPOCH, Found, Live
from fastapi_oidc.oidc import OIDC
from fastapi_oidc.session.cells import Seen
from fastapi_oidc.session.model import AnySession, Frozen
from fastapi_oidc.session.rows import Row
from fastapi_oidc.session.session_cookie import Copy


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of one access. Sizes are in bytes, and times in seconds.

    `calls` is the number of calls in all, and `concurrent` of those at a time in one process. A
    call ends after `seconds`, its wait for an approval included. A call that waits for an approval
    has a body of `approved_bytes` at most, and is approved by a person who authenticated in the
    last `recent_seconds`.
    """

    request_bytes: int = 16 * 1024 * 1024
    answer_bytes: int = 64 * 1024 * 1024
    calls: int = 10_000
    concurrent: int = 16
    seconds: float = 600
    approved_bytes: int = 64 * 1024
    recent_seconds: int = 300


class Refused(SessionError):
    """A call of a guest that is not passed on, or an answer that is not."""


class Use(NamedTuple):
    """What calls have cost: their number, and the bytes of their bodies and answers."""

    calls: int = 0
    sent: int = 0
    received: int = 0

    def plus(self, other: Use) -> Use:
        """What both have cost."""
        return Use(*map(sum, zip(self, other, strict=True)))


class Approval(Frozen):
    """A call that waits for its person: all that would be sent.

    `path` is normalised and is that below the URL of `route`.
    """

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    id: str
    route: str
    method: str
    path: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = Field(repr=False)
    is_approved: bool = False

    def facts(self) -> dict[str, str]:
        """What its events have of it."""
        return {"approval": self.id, "route": self.route, "method": self.method, "path": self.path}

    def approved(self) -> Approval:
        """The call after its person has approved it."""
        return self.model_copy(update={"is_approved": True})


class Access(Frozen):
    """What the user `sub` of `issuer` has given to `machine`: calls of `routes`, as that person.

    It lasts until `until`, until it is withdrawn, and never longer than the session that gave it.
    `waiting` are its calls that need an approval, the oldest first; one that is approved leaves the
    list when it is sent. `use` is what its calls have cost, as far as it is stored. Times are in
    seconds since the epoch.
    """

    id: str
    machine: str
    issuer: str
    sub: str
    until: int
    routes: tuple[str, ...]
    session_id: str
    keys: tuple[str, ...] = Field(repr=False)
    use: Use = Use()
    waiting: tuple[Approval, ...] = Field(default=(), repr=False)

    def copy_of_session(self) -> Copy:
        """What leads to the session that gives it: its id, and the keys of its revocations."""
        return Copy(self.session_id, self.keys, ANY_EPOCH, 0)

    def new_id(self) -> str:
        """The id of what its machine asks for, which leads to its row."""
        return f"{digest(self.machine)}-{secrets.token_urlsafe(12)}"

    def is_of(self, person: Access | AnySession) -> bool:
        """Whether this person has given it."""
        return (self.issuer, self.sub) == (person.issuer, person.sub)

    def costing(self, cost: Use) -> Access:
        """The access after calls that have cost this."""
        return self.model_copy(update={"use": self.use.plus(cost)})

    def withdrawn(self) -> Access:
        """The access after its end, with nothing that guests have sent."""
        return self.model_copy(update={"until": 0, "waiting": ()})

    def settled(self, id: str, *instead: Approval) -> Access:
        """The access when a call waits no more, or when `instead` does."""
        others = (each for each in self.waiting if each.id != id)
        return self.model_copy(update={"waiting": (*others, *instead)})

    def decided(self, asked: Approval, *after: Approval) -> Access:
        """The access after the person's decision; raises Refused if the call waits no more."""
        if asked not in self.waiting:  # its guest has left, or another decision was first
            raise Refused(Code.BROKER_NOT_APPROVED, "the call waits no more")
        return self.settled(asked.id, *after)


@dataclass(frozen=True, slots=True)
class AccessEvent(Event):
    """What happened with the access `access_id` of a machine, which the user `sub` gave.

    Of a call: its route, method and path without query; the `status` that the guest got; the bytes
    of the body and the answer; and the time that it took, in seconds. A request that could not be
    read has no path. `approval` is the id of a call that waits for its person, or did.
    """

    machine: str = ""
    access_id: str = ""
    route: str = ""
    method: str = ""
    path: str = ""
    status: int = 0
    sent: int = 0
    received: int = 0
    seconds: float = 0.0
    approval: str = ""


Judged: TypeAlias = tuple[Access, Live, Seen]
"""An access that lasts, its session, and the row in which it was read."""


class Accesses:
    """The accesses in the session store of one relying party: one row for each machine.

    So a machine has one person. The session's own row is judged beside that of the access, so
    nothing here knows of sign-outs. Methods raise SessionError (session.store_unavailable) when the
    store fails.
    """

    def __init__(self, oidc: OIDC[Any, Any]) -> None:
        self.party, self.grants = oidc.runtime.party, oidc.runtime.engine.grants
        self.party.sessions.require_rows("keep the access that a person gives")
        self._cells, self._clock = self.party.sessions.cells, self.party.clock

    async def of(self, digest: str) -> Access | None:
        """What the machine of a digest was given last; None after its withdrawal and its time."""
        seen, _ = await self._cells.see(f"access:{digest}")
        return self._read(seen.row)

    async def give(self, access: Access) -> Access:
        """Store the access, which ends with its session at the latest.

        It replaces what the person gave this machine before. Raises Refused, also (broker.taken)
        while another person's access of the machine lasts.
        """
        judge = self.party.sessions.judge
        _, ends = self._lasting(await judge(access.copy_of_session()))
        access = access.model_copy(update={"until": min(access.until, ends)})
        before = await self.of(digest(access.machine))
        if before and not isinstance(await judge(before.copy_of_session()), Live):
            await self.change(before, Access.withdrawn)

        def given(row: Row, _: float) -> Row:
            found = self._read(row)
            if found and not found.is_of(access):
                raise Refused(Code.BROKER_TAKEN, f"another person has given {access.machine!r} one")
            return _row(access)

        await self._cells.move(_key(access), given)
        return access

    async def judge(self, access: Access, known: Judged | None = None) -> Judged:
        """The access and its session, read together; raises Refused when either has ended.

        What is as it was in `known` is not opened again.
        """
        before, live, seen_before = known or (None, None, None)
        copy, key = access.copy_of_session(), _key(access)
        found, seen = await self.party.sessions.judge_beside(copy, key, live, seen_before)
        current = before if seen is seen_before else self._read(seen.row)
        if self._clock.now() >= access.until:
            raise Refused(Code.BROKER_EXPIRED, "the access has reached its time")
        if current is None or current.id != access.id:
            raise Refused(Code.BROKER_WITHDRAWN, "the access was withdrawn or replaced")
        return current, self._lasting(found)[0], seen

    async def change(self, access: Access, rule: Callable[[Access], Access]) -> None:
        """Apply a pure function, unless the access is withdrawn or replaced."""

        def changed(row: Row, _: float) -> Row:
            found = self._read(row)
            return _row(rule(found)) if found and found.id == access.id else row

        await self._cells.move(_key(access), changed)

    async def asked(self, session: AnySession, id: str) -> tuple[Access, Approval]:
        """What waits for the session's user under this id; raises Refused."""
        access = await self.of(id.partition("-")[0])
        for call in access.waiting if access and access.is_of(session) else ():
            if (call.id, call.is_approved) == (id, False):
                return access, call  # type: ignore[return-value]
        raise Refused(Code.BROKER_NOT_APPROVED, "nothing waits for this person under this id")

    def announce(self, name: EventName, access: Access, told: str, **call: Any) -> None:
        """Tell what happened with the access; `call` has the members of a call's event."""
        facts = [f"{each} {value}" for each, value in call.items() if value and each != "code"]
        told = f"{access.machine}: {', '.join([*facts, told])}"
        call |= {"machine": access.machine, "access_id": access.id, "explanation": told}
        person = access.sub, access.session_id
        self.party.announcer(AccessEvent(name, self._clock.now(), *person, **call))

    def _read(self, row: Row) -> Access | None:
        """The access in a row; None after its time, and for what another release has written."""
        with suppress(ValidationError):
            found = Access.model_validate_json(row.content)
            return found if self._clock.now() < found.until else None
        return None

    def _lasting(self, found: Found) -> tuple[Live, int]:
        """The session and its absolute end; raises Refused when it has ended.

        A browser's idle timeout does not end what it gave.
        """
        if not isinstance(found, Live) or not (party := self.party.serving(found.session)):
            raise Refused(Code.BROKER_SIGNED_OUT, "the session that gave the access has ended")
        ends = party.absolute_end_of(found.session)
        if self._clock.now() >= ends:
            raise Refused(Code.BROKER_EXPIRED, "the session that gave the access has expired")
        return found, ends


def digest(machine: str) -> str:
    """What stands for the name of a machine, which may be any text."""
    return hashlib.sha256(machine.encode()).hexdigest()


def _key(access: Access) -> str:
    return f"access:{digest(access.machine)}"


def _row(access: Access) -> Row:
    return Row(content=access.model_dump_json().encode(), expires_at=access.until)
