"""The newest state of a session, in this process or left by another one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fastapi_oidc import OIDCSession
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.standing import newest_anywhere
from fastapi_oidc.session.keeper import Kept
from fastapi_oidc.session.reference import SessionReference
from tests.oidc.session.examples import NOW, a_session
from tests.oidc.world import make_world

SEEN = NOW + 5


class Left:
    """What another process left, and what was asked for."""

    def __init__(self, session: OIDCSession[Any] | None = None, used: int | None = None) -> None:
        self._session, self._used = session, used
        self.asked: list[tuple[str, str]] = []

    async def newest(self, session_id: str) -> OIDCSession[Any] | None:
        self.asked.append(("newest", session_id))
        return self._session

    async def last_use(self, session_id: str) -> int | None:
        self.asked.append(("last_use", session_id))
        return self._used


def a_party(left: Any, **settings: Any) -> RelyingParty[Any]:
    party: RelyingParty[Any] = make_world(settings=settings).oidc.site.party
    return replace(party, shared=left)


def state(generation: int = 0, seen: int | None = None) -> OIDCSession[Any]:
    changes = {"generation": generation, "last_seen_at": seen}
    return a_session().model_copy(update=changes)


async def test_without_a_lock_this_process_knows() -> None:
    party = a_party(None)
    party.register.keep(successor := Kept(state(1)))
    assert await newest_anywhere(party, Kept(state())) is successor


async def test_of_a_session_in_a_store_no_other_process_is_asked() -> None:
    party = a_party(left := Left(state(2), SEEN), idle_timeout=600)
    kept = Kept(state(), SessionReference.new())
    assert await newest_anywhere(party, kept) is kept
    assert left.asked == []


@pytest.mark.parametrize(("here", "there"), [(0, 1), (1, 0), (1, 2), (2, 1), (0, None)])
async def test_it_is_the_newest_of_both(here: int, there: int | None) -> None:
    party = a_party(Left(None if there is None else state(there)))
    party.register.keep(Kept(state(here)))
    newest = await newest_anywhere(party, Kept(state()))
    assert newest.session == state(max(here, there or 0))


@pytest.mark.parametrize("left", [None, state(1)])
async def test_it_was_seen_when_another_process_saw_it(left: OIDCSession[Any] | None) -> None:
    party = a_party(there := Left(left, SEEN), idle_timeout=600)
    newest = await newest_anywhere(party, Kept(state()))
    assert newest.session == state(left.generation if left else 0, SEEN)
    assert there.asked == [("newest", "session-1"), ("last_use", "session-1")]


async def test_without_an_idle_timeout_nobody_is_asked_for_a_use() -> None:
    party = a_party(left := Left(None, SEEN))
    kept = Kept(state())
    assert await newest_anywhere(party, kept) is kept
    assert left.asked == [("newest", "session-1")]
