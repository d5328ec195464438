"""A writer of endings, and a store that takes none of some sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from fastapi_oidc import Clock, Code, Event, SessionError
from fastapi_oidc.flows.ending_writer import EndingWriter
from fastapi_oidc.flows.events import Announcer
from fastapi_oidc.session.keeper import Keeper
from fastapi_oidc.session.model import EndReason, PreviousSession
from tests.oidc.interleaving import Gate
from tests.oidc.world import Time

OFTEN = 200
HOUR = 3600


class Ends:
    """The part of a keeper that is used: takes no ending of the sessions in `refused`."""

    def __init__(self) -> None:
        self.refused: set[str] = set()
        self.ended: list[str] = []
        self.reasons: list[EndReason] = []
        self.attempts = 0
        self.gate: Gate | None = None

    async def end_previous(self, previous: PreviousSession, reason: EndReason) -> None:
        self.attempts += 1
        if self.gate is not None:
            await self.gate.passed()
        if previous.id in self.refused:
            raise SessionError(Code.SESSION_REVOCATION_UNAVAILABLE)
        self.ended.append(previous.id)
        self.reasons.append(reason)


class Bench:
    """A writer, the keeper it writes to, and what it announces."""

    def __init__(self) -> None:
        self.time, self.keeper = Time(), Ends()
        self.events: list[Event] = []
        clock, announcer = Clock(read=self.time), Announcer(self.events.append)
        self.writer = EndingWriter(cast("Keeper[Any]", self.keeper), clock, announcer)

    async def end(self, *ids: str, seconds: int = HOUR) -> None:
        for id in ids:
            await self.writer.end(self.session(id, seconds), "signed_out")

    def session(self, id: str, seconds: int = HOUR) -> PreviousSession:
        return PreviousSession(
            id=id, issuer="op", client_id="app", expires_at=int(self.time.now) + seconds
        )

    async def until_left(self, count: int) -> None:
        await self._until(lambda: len(self.writer) == count)

    async def until_attempts(self, count: int) -> None:
        await self._until(lambda: self.keeper.attempts >= count)

    async def _until(self, holds: Callable[[], bool]) -> None:
        for _ in range(OFTEN):
            if holds():
                return
            await asyncio.sleep(0)
        raise AssertionError(f"{len(self.writer)} left after {self.keeper.attempts} attempts")
