"""Access that a person gives to a machine, its bounds, and its calls that wait: values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

from pydantic import ConfigDict, Field

from fastapi_oidc.errors import SessionError
from fastapi_oidc.events import Event
from fastapi_oidc.session.model import Frozen


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
    """What calls have cost: their number, and the bytes of their bodies and answers.

    `at` is the time of the last one, in seconds since the epoch.
    """

    calls: int = 0
    sent: int = 0
    received: int = 0
    at: int = 0

    def and_of(self, other: Use) -> Use:
        """The cost of both."""
        calls, sent, received, at = zip(self, other, strict=True)
        return Use(sum(calls), sum(sent), sum(received), max(at))


class Asked(Frozen):
    """What a guest asks for, except its body: the name of a route, and what would be sent there.

    `path` is normalised and is that below the route's URL.
    """

    name: str
    method: str
    path: str
    url: str
    headers: tuple[tuple[str, str], ...]


class Approval(Asked):
    """A call of `machine` that waits for its person until `until`: all that would be sent.

    What its `id` names never changes, except that the person decides: `decision` is then the id of
    the decision.
    """

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    id: str
    machine: str
    until: int
    body: bytes = Field(repr=False)
    decision: str = Field(default="", repr=False)
    is_approved: bool = False

    @property
    def facts(self) -> dict[str, str]:
        """Its members of an AccessEvent."""
        where = {"route": self.name, "method": self.method, "path": self.path}
        return where | {"approval": self.id}


class Access(Frozen):
    """What the user `sub` of `issuer` has given to `machine`: calls of `routes`, as that person.

    It lasts until `until`, until it is withdrawn, and never longer than the session that gave it.
    `waiting` are its calls that need an approval, the oldest first. `costs` are what its calls have
    cost so far in each application that has served it. Times are in seconds since the epoch.
    """

    id: str
    machine: str
    issuer: str
    sub: str
    until: int
    routes: tuple[str, ...]
    session_id: str
    keys: tuple[str, ...] = Field(repr=False)
    given_at: int
    costs: tuple[tuple[str, Use], ...] = Field(default=(), repr=False)
    waiting: tuple[Approval, ...] = Field(default=(), repr=False)

    @property
    def use(self) -> Use:
        """What all its calls have cost, as far as it is stored."""
        return self.use_beside("")

    def use_beside(self, server: str) -> Use:
        """What calls have cost in other applications than `server`, which knows its own cost."""
        return reduce(Use.and_of, (cost for each, cost in self.costs if each != server), Use())


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
