"""The events of accesses: one for each call, in the log and for `on_event`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastapi_oidc.broker.rules import OfPerson
from fastapi_oidc.events import Event, EventName
from fastapi_oidc.flows.relying_party import RelyingParty


@dataclass(frozen=True, slots=True)
class AccessEvent(Event):
    """What happened with the access `access_id` of a machine, which the user `sub` gave.

    Of a call: its route, method and path without query; the `status` that the guest got; the bytes
    of the body and the answer; and the time that it took, in seconds. A request that could not be
    read has no path.
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


def announce(party: RelyingParty[Any], name: EventName, what: OfPerson, explanation: str) -> None:
    """Announce what happened with an access or an approval, other than a call."""
    told = f"{what.machine}: {explanation}"
    now, machine = party.clock.now(), what.machine
    party.announcer(
        AccessEvent(name, now, sub=what.sub, explanation=told, machine=machine, access_id=what.id)
    )
