"""Calls that wait for their person: one value in the store for each, so any process can show it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from fastapi_oidc.broker import rules
from fastapi_oidc.broker.forward import Asked
from fastapi_oidc.broker.limits import Limits, Refused
from fastapi_oidc.broker.rules import Access, Approval, State
from fastapi_oidc.broker.trail import announce
from fastapi_oidc.broker.values import Values
from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.events import EventName
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.protocol.step_up import recent
from fastapi_oidc.session.model import OIDCSession

LOOK_SECONDS: Final = 0.5
"""Seconds between two looks for a decision that another process may have taken."""


class Approvals:
    """The calls of one relying party's users that wait. Methods raise SessionError."""

    def __init__(self, party: RelyingParty[Any], limits: Limits) -> None:
        self._party, self._limits = party, limits
        self._values = Values(party, Approval)
        self._decided: dict[str, asyncio.Event] = {}

    async def ask(self, access: Access, asked: Asked, body: bytes) -> Approval:
        """Store what is asked, and list it for the person."""
        approval = Approval(
            id=secrets.token_urlsafe(12),
            machine=access.machine,
            issuer=access.issuer,
            sub=access.sub,
            until=self._party.clock.now() + int(self._limits.approval_seconds),
            name=asked.name,
            method=asked.method,
            url=str(asked.url),
            headers=asked.headers,
            body=body,
            fingerprint=asked.fingerprint(body),
        )
        await self._values.move(approval.id, lambda _: approval)
        await self._values.list(approval.id, approval)
        explanation = f"{asked.method} {asked.name}{asked.path} waits as {approval.id}"
        announce(self._party, EventName.ACCESS_APPROVAL_ASKED, access, explanation)
        return approval

    async def decision(self, approval: Approval) -> None:
        """Return when the approved call may be sent, once; raises Refused (broker.not_approved)."""
        event = self._decided[approval.id] = asyncio.Event()
        try:
            # At the end of the time, what has been decided meanwhile still counts.
            with suppress(TimeoutError):
                async with asyncio.timeout(self._limits.approval_seconds):
                    while await self._is_open(approval.id):
                        await _within(LOOK_SECONDS, event)
        finally:
            del self._decided[approval.id]
        spent = await self._values.move(approval.id, rules.spend)
        if spent is None or (spent.state, spent.fingerprint) != ("spent", approval.fingerprint):
            raise Refused(Code.BROKER_NOT_APPROVED, "refused, or not approved in time")

    async def decide(
        self, session: OIDCSession[Any], id: str, fingerprint: str, *, approve: bool
    ) -> Approval:
        """Record the decision of the session's user about what `fingerprint` names.

        Raises SessionError (session.step_up_required) unless the user has authenticated recently,
        and Refused (broker.not_approved) if nothing of theirs waits under this id and fingerprint.
        """
        at, person = self._party.clock.instant(), (session.issuer, session.sub)
        if not recent(self._limits.recent_seconds).is_met(session.auth_time, session.acr, at):
            raise SessionError(Code.SESSION_STEP_UP_REQUIRED, "an approval needs a recent login")
        state: State = "approved" if approve else "refused"
        found = await self._values.move(
            id, lambda found: rules.decide(found, state, fingerprint, person, at.now)
        )
        if found is None or not found.is_of(*person) or found.state != state:
            raise _nothing_waits()
        if (event := self._decided.get(id)) is not None:
            event.set()
        explanation = f"{found.method} {found.url.partition('?')[0]} {state}"
        announce(self._party, EventName.ACCESS_APPROVAL_DECIDED, found, explanation)
        return found

    async def find(self, session: OIDCSession[Any], id: str) -> Approval:
        """What waits for the session's user; raises Refused (broker.not_approved)."""
        found, now = await self._values.find(id), self._party.clock.now()
        if found is None or not found.waits_for(session.issuer, session.sub, now):
            raise _nothing_waits()
        return found

    async def of(self, session: OIDCSession[Any]) -> Sequence[Approval]:
        """All that waits for the session's user, the oldest first."""
        found = await self._values.of(session.issuer, session.sub)
        return [approval for approval in found if approval.state == "asked"]

    async def _is_open(self, id: str) -> bool:
        found = await self._values.find(id)
        return found is not None and found.state == "asked"


async def _within(seconds: float, event: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _nothing_waits() -> Refused:
    return Refused(Code.BROKER_NOT_APPROVED, "nothing waits for this person under this id")
