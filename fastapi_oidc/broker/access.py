"""Access that a person gives to a machine, its bounds, and its calls that wait: values."""

from __future__ import annotations

from dataclasses import dataclass
from operator import add
from typing import Any, NamedTuple

from pydantic import ConfigDict, Field

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.events import Event
from fastapi_oidc.session.model import Frozen, OIDCSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of one access. Sizes are in bytes, and times in seconds.

    `calls` is the number of calls in all, and `concurrent` of those at a time in one process. A
    call ends after `seconds`, its wait for an approval included. A call that waits for an approval
    has a body of `approved_bytes` at most, waits for `approval_seconds`, and is approved by a
    person who authenticated in the last `recent_seconds`.
    """

    request_bytes: int = 16 * 1024 * 1024
    answer_bytes: int = 64 * 1024 * 1024
    calls: int = 10_000
    concurrent: int = 16
    seconds: float = 600
    approved_bytes: int = 64 * 1024
    approval_seconds: float = 300
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
        return Use(*map(add, self, other))


class Approval(Frozen):
    """A call that waits for its person until `until`: all that would be sent.

    `path` is normalised and is that below the URL of `route`.
    """

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    id: str
    until: int
    route: str
    method: str
    path: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = Field(repr=False)

    def __str__(self) -> str:
        return f"{self.method} {self.route}{self.path}"


class Access(Frozen):
    """What the user `sub` of `issuer` has given to `machine`: calls of `routes`, as that person.

    It lasts until `until`, until it is withdrawn, and never longer than the session that gave it.
    `waiting` are its calls that need an approval, the oldest first, and `approved` the ids of those
    that have it and are not sent yet. `use` is what its calls have cost, as far as it is stored.
    Times are in seconds since the epoch.
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
    approved: tuple[str, ...] = Field(default=(), repr=False)

    def is_of(self, person: Access | OIDCSession[Any]) -> bool:
        """Whether this person has given it."""
        return (self.issuer, self.sub) == (person.issuer, person.sub)

    def costing(self, cost: Use) -> Access:
        """The access after calls that have cost this."""
        return self.model_copy(update={"use": self.use.plus(cost)})

    def at(self, now: int) -> Access:
        """The access without the calls whose time to wait is over."""
        waiting = (each for each in self.waiting if now < each.until)
        return self.model_copy(update={"waiting": tuple(waiting)})

    def withdrawn(self) -> Access:
        """The access after its end, with nothing that guests have sent."""
        return self.model_copy(update={"until": 0, "waiting": ()})

    def settled(self, id: str, *instead: Approval) -> Access:
        """The access when a call waits no more, or when `instead` does."""
        others = (each for each in self.waiting if each.id != id)
        approved = (each for each in self.approved if each != id)
        return self.model_copy(update={"waiting": (*others, *instead), "approved": tuple(approved)})

    def decided(self, asked: Approval, *approved: str) -> Access:
        """The access after the person's decision; raises Refused if the call waits no more."""
        if asked not in self.waiting:  # its guest has left, or another decision was first
            raise Refused(Code.BROKER_NOT_APPROVED, "the call waits no more")
        after = self.settled(asked.id)
        return after.model_copy(update={"approved": (*after.approved, *approved)})


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
