"""What the token endpoint answered, kept until a successor made of it is."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from math import ceil
from typing import Final, Generic

from fastapi_oidc.errors import Code, OIDCError, SessionError
from fastapi_oidc.flows.refresh_outcomes import name_of
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.shared import KeptAnswer, Shared
from fastapi_oidc.once import Expiring, Flights
from fastapi_oidc.provider import LONGEST_EXCHANGE, Undecided
from fastapi_oidc.session.model import Identity, OIDCSession

LIMIT: Final = 20_000
"""Refreshes remembered at the most."""

PAUSE: Final = 2.0
"""Seconds between two attempts to leave an answer to other processes."""

LAST_ATTEMPTS: Final = 5.0
"""Seconds for which a process that ends waits for those that are under way."""

UNVERIFIED: Final = 3600
"""Seconds for which an answer is kept whose ID token no key of the provider verifies."""


class Answers(Generic[Identity]):
    """Presents each refresh token once.

    Beside a lock that can keep it, it is noted that a token is presented, until its answer is kept:
    whoever takes the lock from a process that died or stands still waits for as long as an answer
    may come, and presents the token only then.
    """

    def __init__(self, party: RelyingParty[Identity]) -> None:
        self._party = party
        self._kept: Expiring[str, KeptAnswer] = Expiring(party.clock, max_entries=LIMIT)
        self._leaving: Flights[str, None] = Flights()
        self._is_closing = False

    async def to(self, session: OIDCSession[Identity]) -> KeptAnswer:
        """What the token endpoint answers, or answered before to this same refresh token; its ID
        token is verified.

        That is done once: a provider may withdraw the key while the answer has to be kept. One that
        no newly read key verifies for an hour is given up; the refresh token is presented again
        then, and what becomes of the session is the provider's word.
        """
        name = name_of(session)
        answer = self._kept.get(name) or await self._left(name)
        answer = answer or await self._asked(name, session)
        if answer.response.id_token is None or answer.verified is not None:
            return answer
        try:
            verified = await self._party.provider.verify(answer.response.id_token)
        except Undecided as error:
            if error.is_by_new_keys and self._party.clock.now() >= answer.received_at + UNVERIFIED:
                await self._give_up(name)
            raise
        answer = replace(answer, verified=verified)
        self._kept.set(name, answer, ends=session.expires_at)
        return answer

    async def are_awaited(self, session: OIDCSession[Identity]) -> bool:
        """Whether the refresh token was presented, and no successor is made of the answer yet."""
        name, shared = name_of(session), self._party.shared
        return name in self._kept or (shared is not None and await shared.is_presented(name))

    async def aclose(self) -> None:
        """Leaves what is not left yet to other processes, with one attempt more."""
        self._is_closing = True
        try:
            await self._leaving.ended(LAST_ATTEMPTS)
        finally:
            self._is_closing = False

    def forget(self, name: str) -> None:
        """What became of this answer is kept, or it is of no more use."""
        self._kept.pop(name)

    async def _give_up(self, name: str) -> None:
        self.forget(name)
        if self._party.shared is not None:
            await self._party.shared.forget(name)

    async def _left(self, name: str) -> KeptAnswer | None:
        """The answer that another process left; None when the token is to be presented here."""
        if self._party.shared is None:
            return None
        began, patience = self._party.clock.now(), self._party.policy.provider_timeout
        answer = await self._party.shared.present(name, began, ceil(LONGEST_EXCHANGE + patience))
        if answer is None and self._party.clock.now() - began > patience:
            # This process stood still: what was noted may be over before an answer could come.
            raise SessionError(Code.SESSION_LOCK_UNAVAILABLE, "it took too long to note it")
        return answer

    async def _asked(self, name: str, session: OIDCSession[Identity]) -> KeptAnswer:
        party, began = self._party, self._party.clock.now()
        try:
            response = await party.provider.refresh(session.tokens.refresh_token or "")
        except OIDCError:
            # Nobody has to wait for an answer; later than this the note is another process's.
            if party.shared is not None and party.clock.now() - began < LONGEST_EXCHANGE:
                await party.shared.forget(name)
            raise
        answer = KeptAnswer(response, party.clock.now())
        self._kept.set(name, answer, ends=session.expires_at)
        if (shared := party.shared) is not None and not await self._is_left(shared, name, answer):
            self._leaving.begin(name, lambda: self._leave(shared, name))
        return answer

    async def _is_left(self, shared: Shared[Identity], name: str, answer: KeptAnswer) -> bool:
        """Whether other processes find the answer."""
        seconds = max(1, self._kept.ends(name) - self._party.clock.now())
        return await shared.keep_answer(name, answer, seconds)

    async def _leave(self, shared: Shared[Identity], name: str) -> None:
        """Tries again: another process that does not find it presents the token a second time."""
        while True:
            await asyncio.sleep(PAUSE)
            answer = self._kept.get(name)
            if answer is None:
                return
            if await self._is_left(shared, name, answer):
                if name not in self._kept:  # it was done meanwhile
                    await shared.forget(name)
                return
            if self._is_closing:
                return
