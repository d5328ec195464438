"""What a process knows of sessions beyond what a request came with."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from fastapi_oidc import Clock
from fastapi_oidc.flows import register as remembering
from fastapi_oidc.flows.register import (
    BESIDE_A_STORE,
    REMEMBERED,
    Register,
    newer_of,
    used_at,
)
from fastapi_oidc.session.endings import LATE_ANSWER
from fastapi_oidc.session.keeper import Kept
from fastapi_oidc.session.reference import SessionReference
from tests.oidc.session.examples import LIFETIME, NOW, a_session
from tests.oidc.world import Time


@pytest.fixture
def time() -> Time:
    return Time(NOW)


@pytest.fixture
def register(time: Time) -> Register[Any]:
    return Register(Clock(read=time))


def kept(
    generation: int = 0,
    *,
    id: str = "session-1",
    seen: int | None = None,
    expires_at: int = NOW + LIFETIME,
) -> Kept[Any]:
    changes = {"generation": generation, "last_seen_at": seen}
    return Kept(a_session(id=id, expires_at=expires_at).model_copy(update=changes))


def test_the_newer_state_has_the_later_generation_and_then_the_later_request() -> None:
    states = [kept(0), kept(0, seen=NOW), kept(0, seen=NOW + 1), kept(1)]
    for older, newer in pairwise(states):
        assert newer_of(older, newer) is newer
        assert newer_of(newer, older) is newer
    assert newer_of(one := kept(), kept()) is one


def test_an_older_state_does_not_take_the_place_of_a_newer_one(register: Register[Any]) -> None:
    newest = kept(2)
    register.keep(newest)
    register.keep(kept(1))
    assert register.newest(kept()) is newest


def test_of_a_session_that_is_not_known_the_given_state_is_the_newest(
    register: Register[Any],
) -> None:
    register.keep(kept(1, id="another"))
    given = kept()
    assert register.newest(given) is given
    assert register.seen(given) is given


def test_a_successor_is_known_until_its_own_end_while_the_browser_has_not_come_with_it(
    register: Register[Any], time: Time
) -> None:
    successor = kept(1)
    register.keep(successor)
    time.advance(LIFETIME - 1)
    assert register.seen(kept()) is successor
    time.advance(1)
    assert register.seen(old := kept()) is old


def test_once_the_browser_came_with_it_a_successor_is_known_for_a_minute(
    register: Register[Any], time: Time
) -> None:
    successor = kept(1)
    register.keep(successor)
    assert register.seen(given := kept(1)) is given
    time.advance(REMEMBERED - 1)
    assert register.seen(kept()) is successor
    time.advance(1)
    assert register.seen(old := kept()) is old


def test_further_requests_do_not_put_that_minute_off(register: Register[Any], time: Time) -> None:
    register.keep(kept(1))
    register.seen(kept(1))
    time.advance(REMEMBERED - 1)
    register.seen(kept(1))
    time.advance(1)
    assert register.seen(old := kept()) is old


def test_what_is_made_of_a_session_was_last_seen_when_that_was_known(
    register: Register[Any],
) -> None:
    made = kept(1)
    assert register.seen_last(made) is made, "of a session that nobody knows"
    register.keep(kept(0))
    assert register.seen_last(made) is made, "of one that was not seen"
    register.keep(kept(0, seen=NOW + 5))
    seen = register.seen_last(made)
    assert seen.session == made.session.model_copy(update={"last_seen_at": NOW + 5})
    assert register.seen_last(later := kept(1, seen=NOW + 6)) is later


def test_what_is_made_stays_in_its_place(register: Register[Any]) -> None:
    reference: Any = object()
    register.keep(kept(0, seen=NOW + 5))
    assert register.seen_last(Kept(kept(1).session, reference)).reference is reference


def test_the_last_use_is_known_until_the_session_would_be_idle(time: Time) -> None:
    idle = 10 * REMEMBERED
    register: Register[Any] = Register(Clock(read=time), idle_timeout=idle)
    register.keep(kept(1, seen=NOW + 5))
    register.keep(kept(1, seen=NOW + 4))
    register.seen(kept(1, seen=NOW + 5))
    time.advance(REMEMBERED)
    assert register.newest(kept()).session == kept(seen=NOW + 5).session, "the use alone"
    time.advance(idle - REMEMBERED + 5)
    assert register.newest(given := kept()) is given


def test_of_a_session_in_a_store_no_use_is_known_for_longer_than_its_state(time: Time) -> None:
    register: Register[Any] = Register(Clock(read=time), idle_timeout=10 * BESIDE_A_STORE)
    register.keep(Kept(kept(1, seen=NOW).session, SessionReference.new()))
    time.advance(BESIDE_A_STORE)
    assert register.newest(given := kept()) is given


def test_a_session_that_was_not_seen_is_kept_too(time: Time) -> None:
    register: Register[Any] = Register(Clock(read=time), idle_timeout=REMEMBERED)
    register.keep(successor := kept(1))
    assert register.newest(kept()) is successor


def test_a_use_that_is_known_already_changes_nothing() -> None:
    seen = kept(seen=NOW)
    assert used_at(seen, NOW) is used_at(seen, NOW - 1) is used_at(seen, None) is seen
    assert used_at(seen, NOW + 1).session.last_seen_at == NOW + 1


def test_the_use_of_a_session_that_ended_is_forgotten() -> None:
    register: Register[Any] = Register(Clock(read=Time(NOW)), idle_timeout=REMEMBERED)
    register.keep(kept(1, seen=NOW))
    register.end(kept().session.id, "signed_out", ends=NOW)
    assert register.newest(given := kept()) is given


def test_a_session_that_ended_is_over_until_its_own_end(
    register: Register[Any], time: Time
) -> None:
    session = kept().session
    register.keep(kept(1))
    register.end(session.id, "signed_out", ends=NOW + LIFETIME)
    assert register.newest(given := kept()) is given
    time.advance(LIFETIME - 1)
    assert register.ended(session) == "signed_out"
    time.advance(1)
    assert register.ended(session) is None


def test_a_session_whose_time_was_over_has_ended_for_as_long_as_an_answer_may_come(
    register: Register[Any], time: Time
) -> None:
    session = kept().session
    register.end(session.id, "expired", ends=NOW)
    time.advance(LATE_ANSWER - 1)
    assert register.ended(session) == "expired"
    time.advance(1)
    assert register.ended(session) is None


def test_the_end_of_a_session_is_news_once_in_a_while(register: Register[Any], time: Time) -> None:
    assert register.is_news("session-1")
    assert register.is_news("session-2")
    time.advance(LATE_ANSWER - 1)
    assert not register.is_news("session-1")
    time.advance(1)
    assert register.is_news("session-1")


def test_what_is_known_is_bounded(time: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several that end in one second the first goes."""
    monkeypatch.setattr(remembering, "LIMIT", 1)
    register: Register[Any] = Register(Clock(read=time), idle_timeout=LIFETIME)
    first, second = kept(1, seen=NOW), kept(1, id="session-2", seen=NOW)
    for successor in (first, second):
        register.keep(successor)
    assert register.newest(old := kept()) is old
    assert register.newest(kept(id="session-2")) is second
    for ended in (first.session, second.session):
        register.end(ended.id, "signed_out", ends=NOW + LIFETIME)
    assert [register.ended(kept.session) for kept in (first, second)] == [None, "signed_out"]
    names = ("session-1", "session-2", "session-2", "session-1")
    assert [register.is_news(name) for name in names] == [True, True, False, True]
