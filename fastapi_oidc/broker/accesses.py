"""The accesses in the session store: given, judged beside their session, withdrawn and counted."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

from fastapi_oidc.broker import rules
from fastapi_oidc.broker.limits import Refused
from fastapi_oidc.broker.rules import Access, Use
from fastapi_oidc.broker.values import Values
from fastapi_oidc.errors import Code
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.revocation import absolute_end_of
from fastapi_oidc.flows.sessions import ANY_EPOCH, Found, Live
from fastapi_oidc.session.copies import Copy
from fastapi_oidc.session.model import OIDCSession
from fastapi_oidc.session.revocations import keys_of


class Judged(NamedTuple):
    """An access that has not ended, and its session."""

    access: Access
    live: Live[Any]


class Accesses:
    """The accesses of one relying party. Each machine has one row, so it has one person.

    Methods raise SessionError (session.store_unavailable) when the store fails.
    """

    def __init__(self, party: RelyingParty[Any]) -> None:
        party.sessions.require_rows("keep the access that a person gives")
        self._party, self._values = party, Values(party, Access)

    async def give(
        self, session: OIDCSession[Any], machine: str, routes: Sequence[str], until: int
    ) -> Access:
        """A new access until `until`, or until the session's absolute end if that is earlier.

        Raises Refused when the session has ended, and (broker.taken) while another person's access
        of the machine lasts.
        """
        now, keys = self._party.clock.now(), keys_of(session)
        session = (await self.live(session.id, keys)).session
        settings = self._party.of(session).settings
        access = Access(
            id=secrets.token_urlsafe(12),
            machine=machine,
            routes=tuple(routes),
            issuer=session.issuer,
            sub=session.sub,
            session_id=session.id,
            keys=keys,
            given_at=now,
            until=min(until, absolute_end_of(session, settings)),
        )
        ended = await self._ended_by_session(machine)
        given = await self._values.move(
            machine, lambda found: rules.give(found, access, ended, now)
        )
        if given != access:
            raise Refused(Code.BROKER_TAKEN, f"another person has given {machine!r} access")
        await self._values.list(machine, access)
        return access

    async def judge(self, access: Access) -> Judged:
        """The access as the store has it now, read together with its session's row.

        Raises Refused when it has ended, for whatever reason.
        """
        key = self._values.key(access.machine)
        copy: Copy[Any] = Copy(access.session_id, access.keys, ANY_EPOCH, 0)
        found, [seen] = await self._party.sessions.judge_beside(copy, key)
        current = self._values.read(seen.row)
        if current is None or current.id != access.id:
            raise Refused(Code.BROKER_WITHDRAWN, "the access was withdrawn or replaced")
        if end := current.end(self._party.clock.now()):
            raise Refused(end, "the access has ended")
        return Judged(current, self._require_live(found))

    async def live(self, session_id: str, keys: tuple[str, ...]) -> Live[Any]:
        """The session; raises Refused when it has ended."""
        copy: Copy[Any] = Copy(session_id, keys, ANY_EPOCH, 0)
        return self._require_live(await self._party.sessions.judge(copy))

    async def withdraw(self, access: Access) -> None:
        """End the access, before this returns."""
        now = self._party.clock.now()
        await self._values.move(access.machine, lambda found: rules.withdraw(found, access.id, now))

    async def count(self, access: Access, cost: Use) -> None:
        """Add the cost of a call."""
        await self._values.move(access.machine, lambda found: rules.use(found, access.id, cost))

    async def of(self, session: OIDCSession[Any]) -> Sequence[Access]:
        """What the session's user has given and has not ended by itself, the oldest first."""
        now, found = self._party.clock.now(), await self._values.of(session.issuer, session.sub)
        return [access for access in found if access.end(now) is None]

    def _require_live(self, found: Found[Any]) -> Live[Any]:
        """The session, unless it has ended; a browser's idle timeout does not end what it gave."""
        session = found.session if isinstance(found, Live) else None
        party = None if session is None else self._party.serving(session)
        if not isinstance(found, Live) or party is None:
            raise Refused(Code.BROKER_SIGNED_OUT, "the session that gave the access has ended")
        if party.clock.now() >= absolute_end_of(found.session, party.settings):
            raise Refused(Code.BROKER_EXPIRED, "the session that gave the access has expired")
        return found

    async def _ended_by_session(self, machine: str) -> str:
        """The id of the machine's access if its session has ended; "" otherwise."""
        access = await self._values.find(machine)
        try:
            if access is not None:
                await self.judge(access)
        except Refused:
            return "" if access is None else access.id
        return ""
