"""Access that a person gives to a machine, and calls that wait for them: values and their rules.

    given --use--> given --withdraw--> withdrawn
    asked --decide--> approved --spend--> spent       asked --decide--> refused
    asked --spend--> lapsed

Every function here is pure. The session's own row is judged beside an access at each call; so
nothing here knows of sign-outs.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from pydantic import ConfigDict, Field

from fastapi_oidc.errors import Code
from fastapi_oidc.session.model import Frozen

State: TypeAlias = Literal["asked", "approved", "refused", "spent", "lapsed"]


class OfPerson(Frozen):
    """A value of the user `sub` of `issuer`, until `until` (seconds since the epoch)."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    id: str
    machine: str
    issuer: str
    sub: str
    until: int

    def is_of(self, issuer: str, sub: str) -> bool:
        """Whether it is this person's."""
        return (self.issuer, self.sub) == (issuer, sub)


class Use(NamedTuple):
    """What calls have cost: their number, and the bytes of their bodies and answers.

    `at` is the time of the last one, in seconds since the epoch.
    """

    calls: int = 0
    sent: int = 0
    received: int = 0
    at: int = 0


class Access(OfPerson):
    """What a person has given to `machine`: calls of `routes`, as that person.

    It lasts until `until`, until it is withdrawn, and never longer than the session that gave it.
    Times are in seconds since the epoch.
    """

    routes: tuple[str, ...]
    session_id: str
    keys: tuple[str, ...] = Field(default=(), repr=False)
    given_at: int
    withdrawn_at: int | None = None
    use: Use = Use()

    def end(self, now: int) -> Code | None:
        """Why the access has ended by its own value; None if it has not."""
        if self.withdrawn_at is not None:
            return Code.BROKER_WITHDRAWN
        return Code.BROKER_EXPIRED if now >= self.until else None


class Approval(OfPerson):
    """A call that waits for its person: all that would be sent, byte for byte.

    `fingerprint` is that of the method, URL, headers and body together.
    """

    name: str
    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = Field(repr=False)
    fingerprint: str
    state: State = "asked"

    def waits_for(self, issuer: str, sub: str, now: int) -> bool:
        """Whether this person can decide now."""
        return self.is_of(issuer, sub) and self.state == "asked" and now < self.until


def give(found: Access | None, access: Access, ended: str, now: int) -> Access:
    """`access`, unless another person's is there that has not ended: a machine has one person.

    `ended` is the id of an access whose session has ended.
    """
    if found is None or found.is_of(access.issuer, access.sub):
        return access
    return access if found.end(now) or found.id == ended else found


def withdraw(found: Access | None, id: str, now: int) -> Access | None:
    """The access withdrawn. The first time counts; another access of the machine stays."""
    if found is None or found.id != id or found.withdrawn_at is not None:
        return found
    return found.model_copy(update={"withdrawn_at": now})


def use(found: Access | None, id: str, cost: Use) -> Access | None:
    """The access with the cost of further calls, also of those that its end has cut."""
    if found is None or found.id != id:
        return found
    before = found.use
    counts = (before.calls + cost.calls, before.sent + cost.sent, before.received + cost.received)
    return found.model_copy(update={"use": Use(*counts, max(before.at, cost.at))})


def decide(
    found: Approval | None, state: State, fingerprint: str, person: tuple[str, str], now: int
) -> Approval | None:
    """The decision of the person, about exactly what the page has shown; the first one counts."""
    if found is None or found.fingerprint != fingerprint or not found.waits_for(*person, now):
        return found
    return found.model_copy(update={"state": state})


def spend(found: Approval | None) -> Approval | None:
    """The approval used up for its only call; without a decision, it lapses."""
    after: dict[State, State] = {"approved": "spent", "asked": "lapsed"}
    if found is None or found.state not in after:
        return found
    return found.model_copy(update={"state": after[found.state]})
