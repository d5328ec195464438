"""What the token endpoint answered, kept until a successor made of it is."""

from __future__ import annotations

from typing import Final, Generic

from fastapi_oidc.flows.refresh_outcomes import name_of
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.shared import KeptAnswer
from fastapi_oidc.once import Expiring
from fastapi_oidc.session.model import Identity, OIDCSession

LIMIT: Final = 20_000
"""Refreshes remembered at the most."""


class Answers(Generic[Identity]):
    """Presents each refresh token once."""

    def __init__(self, party: RelyingParty[Identity]) -> None:
        self._party = party
        self._kept: Expiring[str, KeptAnswer] = Expiring(party.clock, max_entries=LIMIT)

    async def to(self, session: OIDCSession[Identity]) -> KeptAnswer:
        """What the token endpoint answers, or answered before to this same refresh token."""
        name, shared = name_of(session), self._party.shared
        answer = self._kept.get(name)
        if answer is None and shared is not None:
            answer = await shared.answer(name)
        if answer is None:
            response = await self._party.provider.refresh(session.tokens.refresh_token or "")
            answer = KeptAnswer(response, self._party.clock.now())
            self._kept.set(name, answer, ends=session.expires_at)
            if shared is not None:
                await shared.keep_answer(name, answer)
        return answer

    def forget(self, name: str) -> None:
        """What became of this answer is kept, or it is of no more use."""
        self._kept.pop(name)
