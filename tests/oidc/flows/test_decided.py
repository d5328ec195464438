"""What was decided of earlier attempts to refresh a session, and for how long it holds."""

from __future__ import annotations

from typing import Any

import pytest

from fastapi_oidc.errors import Code, OIDCError, ProviderError, SessionError
from fastapi_oidc.flows import decided as deciding
from fastapi_oidc.flows.decided import FIRST_PAUSE, LONGEST_PAUSE, Decided
from fastapi_oidc.flows.refresh_outcomes import Postponed, Refused, Renewed
from fastapi_oidc.session.keeper import Kept
from tests.oidc.session.examples import LIFETIME, a_session
from tests.oidc.world import World, make_world

DOWN = ProviderError(Code.PROVIDER_STATUS, "it answered 503")


@pytest.fixture
def world() -> World:
    return make_world()


@pytest.fixture
def decided(world: World) -> Decided[Any]:
    return Decided(world.oidc.site.party)


def kept(world: World, generation: int = 0) -> Kept[Any]:
    session = a_session(expires_at=int(world.time.now) + LIFETIME)
    return Kept(session.model_copy(update={"generation": generation}))


def test_of_a_session_that_nobody_refreshed_nothing_is_decided(
    world: World, decided: Decided[Any]
) -> None:
    assert decided.of(kept(world)) is None


def test_a_session_that_ended_here_is_refused(world: World, decided: Decided[Any]) -> None:
    ended = kept(world)
    decided.renew(ended, kept(world, 1))
    world.oidc.site.party.register.end(ended.session.id, "expired", ends=ended.session.expires_at)
    assert decided.of(ended) == Refused(Code.SESSION_SIGNED_OUT)


def test_a_successor_is_for_those_who_come_with_an_older_state(
    world: World, decided: Decided[Any]
) -> None:
    successor = kept(world, 1)
    assert decided.renew(kept(world), successor) == Renewed(successor)
    assert decided.of(kept(world)) == Renewed(successor)
    assert decided.of(successor) is None


def test_a_refusal_is_of_this_generation_and_every_earlier_one_until_the_sessions_end(
    world: World, decided: Decided[Any]
) -> None:
    refused_one = kept(world, 1)
    error = SessionError(Code.SESSION_FORBIDDEN, "no longer employed")
    refusal = Refused(Code.SESSION_FORBIDDEN, "no longer employed")
    assert decided.refuse(refused_one.session, error) == refusal
    earlier, later = kept(world), kept(world, 2)
    world.time.advance(LIFETIME - 1)
    assert decided.of(refused_one) == decided.of(earlier) == refusal
    assert decided.of(later) is None
    world.time.advance(1)
    assert decided.of(refused_one) is None


@pytest.mark.parametrize("error", [DOWN, SessionError(Code.SESSION_LOCK_UNAVAILABLE, "down")])
def test_a_postponed_refresh_is_announced_once_with_its_session(
    world: World, decided: Decided[Any], error: OIDCError
) -> None:
    postponed = decided.postpone(kept(world).session, error)
    assert postponed.is_announced
    [event] = world.events
    assert (event.name, event.code) == ("session.refresh_postponed", error.code)
    assert (event.sub, event.session_id, event.at) == ("alice", "session-1", world.time.now)
    waiting = decided.of(kept(world))
    assert isinstance(waiting, Postponed)
    assert not waiting.is_announced
    assert waiting.because == error.explanation
    assert len(world.events) == 1


def test_nobody_asks_again_before_the_pause_is_over(world: World, decided: Decided[Any]) -> None:
    postponed = decided.postpone(kept(world).session, DOWN)
    assert postponed.pause == FIRST_PAUSE
    assert postponed.retry_at == world.time.now + FIRST_PAUSE
    world.time.advance(FIRST_PAUSE - 1)
    assert isinstance(decided.of(kept(world)), Postponed)
    world.time.advance(1)
    assert decided.of(kept(world)) is None


def test_a_clock_that_is_set_back_makes_no_pause_longer(
    world: World, decided: Decided[Any]
) -> None:
    decided.postpone(kept(world).session, DOWN)
    world.time.advance(-1)
    assert decided.of(kept(world)) is None


def test_pauses_double_up_to_the_longest(world: World, decided: Decided[Any]) -> None:
    pauses = []
    for _ in range(6):
        postponed = decided.postpone(kept(world).session, DOWN)
        world.time.advance(postponed.pause)
        pauses.append(postponed.pause)
    assert pauses == [5, 10, 20, 40, 60, 60]


def test_pauses_grow_although_nobody_comes_for_two_minutes_after_one(
    world: World, decided: Decided[Any]
) -> None:
    session = kept(world).session
    after = decided.postpone(session, DOWN).pause + 2 * LONGEST_PAUSE
    world.time.advance(after - 1)
    assert decided.postpone(session, DOWN).pause == 2 * FIRST_PAUSE
    world.time.advance(2 * FIRST_PAUSE + 2 * LONGEST_PAUSE)
    assert decided.postpone(session, DOWN).pause == FIRST_PAUSE


def test_the_next_generation_starts_with_the_first_pause(
    world: World, decided: Decided[Any]
) -> None:
    decided.postpone(kept(world).session, DOWN)
    assert decided.postpone(kept(world, 1).session, DOWN).pause == FIRST_PAUSE


def test_a_refresh_that_was_made_after_all_leaves_no_pause(
    world: World, decided: Decided[Any]
) -> None:
    decided.postpone(kept(world).session, DOWN)
    decided.renew(kept(world), kept(world, 1))
    assert decided.postpone(kept(world).session, DOWN).pause == FIRST_PAUSE


def test_what_was_decided_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several that end in one second the first goes."""
    monkeypatch.setattr(deciding, "LIMIT", 1)
    decided: Decided[Any] = Decided(world.oidc.site.party)
    first = kept(world)
    second = Kept(first.session.model_copy(update={"id": "session-2"}))
    for each in (first, second):
        decided.postpone(each.session, DOWN)
    assert decided.of(first) is None
    assert isinstance(decided.of(second), Postponed)
    world.time.advance(FIRST_PAUSE)
    for each in (first, second):
        decided.refuse(each.session, DOWN)
    assert decided.of(first) is None
    assert isinstance(decided.of(second), Refused)
