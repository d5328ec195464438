"""A user's sessions are listed without those that are over, of which many are asked together."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi_oidc.clock import Clock
from fastapi_oidc.session.memory import MemoryRevocationStore, MemorySessionStore
from fastapi_oidc.session.model import EndReason, OIDCSession
from fastapi_oidc.session.rows import Rows
from tests.oidc.session.examples import NOW, User, a_record, a_session

CLOCK = Clock(read=lambda: NOW)
SESSIONS, AT_A_TIME = 100, 32


class Counting(MemoryRevocationStore):
    """Counts how many questions are under way."""

    def __init__(self) -> None:
        super().__init__(clock=CLOCK)
        self.under_way = self.most = 0

    async def ended_by(self, session: OIDCSession[Any], /) -> EndReason | None:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        return await super().ended_by(session)


async def test_their_endings_are_asked_for_together_and_not_all_at_once() -> None:
    endings, store = Counting(), MemorySessionStore[User](clock=CLOCK)
    rows = Rows(store, endings)
    for number in range(SESSIONS):
        session = a_session(id=f"session-{number}", created_at=NOW - SESSIONS + number)
        await store.set(str(number), session)
    await endings.revoke(a_record(sid=None, session_id="session-40", made_by="application"))
    listed = await rows.sessions_of("https://op.example.com", "app", "alice")
    expected = [f"session-{number}" for number in range(SESSIONS) if number != 40]
    assert [session.id for session in listed] == expected
    assert endings.most == AT_A_TIME
