"""What becomes of an access and of its calls that wait: pure functions.

The session's own row is judged beside an access at each call; so nothing here knows of sign-outs.
"""

from __future__ import annotations

from typing import Final

from fastapi_oidc.broker.access import Access, Approval, Refused, State, Use
from fastapi_oidc.errors import Code

MOST_WAITING: Final = 4
"""Calls of one access that wait for an approval at a time: their bodies are in its row."""


def together(one: Use, other: Use) -> Use:
    """The cost of both."""
    calls, sent, received, at = zip(one, other, strict=True)
    return Use(sum(calls), sum(sent), sum(received), max(at))


def used(access: Access, cost: Use) -> Access:
    """The access with the cost of further calls."""
    return access.model_copy(update={"use": together(access.use, cost)})


def undecided(access: Access, now: int) -> list[Approval]:
    """The calls about which the person can decide, the oldest first."""
    return [each for each in access.waiting if each.state == "asked" and now < each.until]


def state_of(access: Access, approval: Approval) -> State:
    """What the person has decided; "refused" when the call does not wait any more."""
    return next((each.state for each in access.waiting if each.id == approval.id), "refused")


def asking(access: Access, approval: Approval, now: int) -> Access:
    """The access with one more call that waits; raises Refused (broker.busy)."""
    waiting = tuple(each for each in access.waiting if now < each.until)
    if len(waiting) >= MOST_WAITING:
        raise Refused(Code.BROKER_BUSY, f"{MOST_WAITING} calls wait for an approval")
    return access.model_copy(update={"waiting": (*waiting, approval)})


def decided(access: Access, shown: Approval, state: State) -> Access:
    """The access with a decision about exactly what was shown; the first one counts."""
    after = shown.model_copy(update={"state": state})
    waiting = tuple(after if each == shown else each for each in access.waiting)
    return access.model_copy(update={"waiting": waiting})


def answered(access: Access, approval: Approval) -> Access:
    """The access without a call that waits no more."""
    waiting = tuple(each for each in access.waiting if each.id != approval.id)
    return access.model_copy(update={"waiting": waiting})
