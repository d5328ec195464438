"""What a process leaves in the refresh lock's memory: sealed, and each under its own name."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from fastapi_oidc import Code, MemoryRefreshLock, SessionError
from fastapi_oidc.flows.shared import NOTED, REMEMBERED, KeptAnswer, Shared
from fastapi_oidc.session.keeper import Kept
from fastapi_oidc.session.sealing import KeyRing
from tests.oidc.flows.shared_bench import (
    ANSWER,
    BARE,
    IN_COOKIE,
    IN_STORE,
    NAME,
    Broken,
    WithoutMemory,
    a_process,
)
from tests.oidc.session.examples import SECRET, User
from tests.oidc.world import Time


@pytest.mark.parametrize("answer", [ANSWER, BARE], ids=["full", "bare"])
async def test_an_answer_is_found_by_who_would_present_the_token_again(
    answer: KeptAnswer, lock: MemoryRefreshLock, time: Time
) -> None:
    here, there = a_process(lock), a_process(lock)
    await here.keep_answer(NAME, answer, 80)
    assert await there.present(NAME, int(time.now), 80) == answer


async def test_of_an_answer_no_verification_is_taken_over(
    lock: MemoryRefreshLock, time: Time
) -> None:
    verified: Any = object()
    here, there = a_process(lock), a_process(lock)
    await here.keep_answer(NAME, replace(ANSWER, verified=verified), 80)
    assert await there.present(NAME, int(time.now), 80) == ANSWER


async def test_who_presents_a_token_is_waited_for(lock: MemoryRefreshLock, time: Time) -> None:
    here, there = a_process(lock), a_process(lock)
    assert not await there.is_presented(NAME)
    assert await here.present(NAME, int(time.now), 80) is None
    assert await there.is_presented(NAME)
    time.advance(79)
    with pytest.raises(SessionError) as caught:
        await there.present(NAME, int(time.now), 80)
    assert caught.value.code is Code.SESSION_LOCK_UNAVAILABLE
    assert "may still be answered" in str(caught.value)
    time.advance(1)
    assert await there.present(NAME, int(time.now), 80) is None


async def test_who_gave_up_is_not_waited_for(lock: MemoryRefreshLock, time: Time) -> None:
    here, there = a_process(lock), a_process(lock)
    await here.present(NAME, int(time.now), 80)
    await here.forget(NAME)
    assert not await there.is_presented(NAME)
    assert await there.present(NAME, int(time.now), 80) is None


@pytest.mark.parametrize("document", [[], {"received_at": "today", "response": {}}])
async def test_what_is_no_answer_cannot_be_read(
    document: object, lock: MemoryRefreshLock, time: Time
) -> None:
    sealer = KeyRing([SECRET]).sealer("refresh")
    name = f"answer.{NAME}"
    lock.keep(name, sealer.seal(json.dumps(document).encode(), name=name).encode(), 60)
    with pytest.raises(SessionError) as caught:
        await a_process(lock).present(NAME, int(time.now), 80)
    assert caught.value.code is Code.SESSION_LOCK_UNAVAILABLE
    assert "session.malformed" in str(caught.value)


async def test_of_what_is_done_the_session_is_left_and_no_answer(
    lock: MemoryRefreshLock, time: Time
) -> None:
    here, there = a_process(lock), a_process(lock)
    await here.keep_answer(NAME, ANSWER, 80)
    await here.done(NAME, IN_COOKIE)
    assert not await there.is_presented(NAME)
    time.advance(REMEMBERED - 1)
    assert await there.newest(IN_COOKIE.session.id) == IN_COOKIE.session
    time.advance(1)
    assert await there.newest(IN_COOKIE.session.id) is None


async def test_who_stood_still_until_it_was_done_presents_nothing(
    lock: MemoryRefreshLock, time: Time
) -> None:
    here, there = a_process(lock), a_process(lock)
    await here.done(NAME, IN_STORE)
    time.advance(NOTED - 1)
    with pytest.raises(SessionError) as caught:
        await there.present(NAME, int(time.now), 80)
    assert caught.value.code is Code.SESSION_LOCK_UNAVAILABLE
    assert "has refreshed the session" in str(caught.value)
    time.advance(1)
    assert await there.present(NAME, int(time.now), 80) is None


async def test_an_answer_is_left_for_as_long_as_its_session_lives(
    lock: MemoryRefreshLock, time: Time
) -> None:
    here, there = a_process(lock), a_process(lock)
    await here.keep_answer(NAME, ANSWER, 2 * REMEMBERED)
    time.advance(2 * REMEMBERED - 1)
    assert await there.is_presented(NAME)
    time.advance(1)
    assert not await there.is_presented(NAME)


async def test_of_what_a_store_has_nothing_is_left(lock: MemoryRefreshLock) -> None:
    shared = a_process(lock)
    await shared.keep_answer(NAME, ANSWER, 80)
    await shared.done(NAME, IN_STORE)
    await shared.leave_use(IN_STORE)
    assert not await shared.is_presented(NAME)
    assert await shared.newest(IN_STORE.session.id) is None
    assert await shared.last_use(IN_STORE.session.id) is None


@pytest.mark.parametrize(("last_seen_at", "left"), [(None, 0), (1_800_000_123, 1_800_000_123)])
async def test_the_last_use_is_left_for_as_long_as_it_counts(
    last_seen_at: int | None, left: int, lock: MemoryRefreshLock, time: Time
) -> None:
    here, there = a_process(lock, remembered=900), a_process(lock)
    session = IN_COOKIE.session.model_copy(update={"last_seen_at": last_seen_at})
    await here.leave_use(Kept(session))
    time.advance(899)
    assert await there.last_use(session.id) == left
    time.advance(1)
    assert await there.last_use(session.id) is None


async def test_what_was_left_of_one_session_opens_for_no_other(lock: MemoryRefreshLock) -> None:
    shared = a_process(lock)
    await shared.done(NAME, IN_COOKIE)
    left = lock.kept(f"newest.{IN_COOKIE.session.id}")
    assert left is not None
    lock.keep("newest.session-2", left, 60)
    with pytest.raises(SessionError) as caught:
        await shared.newest("session-2")
    assert caught.value.code is Code.SESSION_LOCK_UNAVAILABLE


async def test_a_lock_without_a_memory_leaves_nothing(time: Time) -> None:
    shared = a_process(WithoutMemory())
    assert await shared.present(NAME, int(time.now), 80) is None
    await shared.keep_answer(NAME, ANSWER, 80)
    await shared.done(NAME, IN_COOKIE)
    await shared.leave_use(IN_COOKIE)
    assert not await shared.is_presented(NAME)
    assert await shared.newest(IN_COOKIE.session.id) is None
    assert await shared.last_use(IN_COOKIE.session.id) is None
    await shared.aclose()


async def test_what_a_lock_cannot_keep_is_logged_without_its_content(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shared = a_process(Broken())
    with caplog.at_level(logging.WARNING, logger="fastapi_oidc.session"):
        await shared.keep_answer(NAME, ANSWER, 80)
        await shared.forget(NAME)
    said = "the refresh lock cannot keep what it was given: ConnectionError"
    assert caplog.messages == [said, said]


@pytest.mark.parametrize(
    "asked",
    [
        lambda shared: shared.present(NAME, 1_800_000_000, 80),
        lambda shared: shared.is_presented(NAME),
        lambda shared: shared.newest("session-1"),
        lambda shared: shared.last_use("session-1"),
    ],
)
async def test_a_lock_that_cannot_be_asked_is_unavailable(
    asked: Callable[[Shared[User]], Awaitable[object]],
) -> None:
    with pytest.raises(SessionError) as caught:
        await asked(a_process(Broken()))
    assert caught.value.code is Code.SESSION_LOCK_UNAVAILABLE
