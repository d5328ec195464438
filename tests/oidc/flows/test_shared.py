"""Work that happens once over all processes: what one made, the others are given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fastapi_oidc import Clock, Code, MemoryRefreshLock, SessionError
from fastapi_oidc.session.keeper import Kept
from fastapi_oidc.session.sealing import KeyRing
from tests.oidc.flows.shared_bench import (
    IN_COOKIE,
    IN_STORE,
    NAME,
    Broken,
    WithoutMemory,
    a_process,
)
from tests.oidc.session.examples import OLD_SECRET, SECRET, User
from tests.oidc.world import Time


def making(kept: Kept[User]) -> Callable[[], Awaitable[Kept[User]]]:
    async def make() -> Kept[User]:
        return kept

    return make


async def never() -> Kept[User]:
    raise AssertionError("it was made already")


@pytest.mark.parametrize("kept", [IN_COOKIE, IN_STORE], ids=["cookie", "store"])
async def test_what_one_process_made_another_one_is_given(
    kept: Kept[User], lock: MemoryRefreshLock
) -> None:
    here, there = a_process(lock), a_process(lock)
    assert await here.once(NAME, making(kept)) == kept
    assert await there.once(NAME, never) == kept


async def test_what_making_raises_is_raised(lock: MemoryRefreshLock) -> None:
    error = LookupError()

    async def failing() -> Kept[User]:
        raise error

    with pytest.raises(LookupError) as caught:
        await a_process(lock).once(NAME, failing)
    assert caught.value is error
    assert error.__cause__ is None


async def test_what_was_made_here_outlives_a_failure_of_the_lock() -> None:
    assert await a_process(Broken()).once(NAME, making(IN_COOKIE)) is IN_COOKIE


async def test_a_lock_that_cannot_be_had_is_said_to_be_unavailable() -> None:
    class Unreachable(WithoutMemory):
        async def run_exclusive(self, *about: Any) -> bytes:
            raise ConnectionError("down")

    with pytest.raises(SessionError) as caught:
        await a_process(Unreachable()).once(NAME, never)
    assert caught.value.code is Code.SESSION_LOCK_UNAVAILABLE


@pytest.mark.parametrize("written", [b"{}", b"00\n{}"])
async def test_what_is_no_session_cannot_be_read(written: bytes) -> None:
    sealed = KeyRing([SECRET]).sealer("refresh").seal(written, name=NAME).encode()

    class Answering(WithoutMemory):
        async def run_exclusive(self, *about: Any) -> bytes:
            return sealed

    with pytest.raises(SessionError) as caught:
        await a_process(Answering()).once(NAME, never)
    assert caught.value.code is Code.SESSION_LOCK_UNAVAILABLE
    assert "session.malformed" in str(caught.value)


async def test_another_secret_cannot_read_it(lock: MemoryRefreshLock) -> None:
    await a_process(lock).once(NAME, making(IN_COOKIE))
    with pytest.raises(SessionError) as caught:
        await a_process(lock, secret=OLD_SECRET).once(NAME, never)
    assert caught.value.code is Code.SESSION_LOCK_UNAVAILABLE
    assert "session.seal_broken" in str(caught.value)


class Turns:
    """How many turns were taken, and whether one is taken now."""

    def __init__(self) -> None:
        self.taken, self.is_taken = 0, False

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        self.taken += 1
        self.is_taken = True
        yield
        self.is_taken = False


async def test_it_is_made_in_a_turn_which_nobody_takes_to_be_given_it(
    lock: MemoryRefreshLock,
) -> None:
    turns = Turns()

    async def in_turn() -> Kept[User]:
        assert turns.is_taken
        return IN_COOKIE

    await a_process(lock).once(NAME, in_turn, turns.turn)
    await a_process(lock).once(NAME, never, turns.turn)
    assert turns.taken == 1


async def test_a_lock_that_cannot_give_a_turn_back_is_asked_within_one() -> None:
    turns = Turns()

    class Asked(WithoutMemory):
        async def run_exclusive(
            self, session_id: str, operation: Callable[[], Awaitable[bytes]], /
        ) -> bytes:
            assert (session_id, turns.is_taken) == (NAME, True)
            return await operation()

    assert await a_process(Asked()).once(NAME, making(IN_COOKIE), turns.turn) == IN_COOKIE
    assert turns.taken == 1


async def test_a_lock_with_a_run_of_its_own_is_asked_for_that(time: Time) -> None:
    """A subclass written before there were turns, whose parent has them."""
    asked: list[str] = []

    class Counting(MemoryRefreshLock):
        async def run_exclusive(
            self, session_id: str, operation: Callable[[], Awaitable[bytes]], /
        ) -> bytes:
            asked.append(session_id)
            return await operation()

    await a_process(Counting(clock=Clock(read=time))).once(NAME, making(IN_COOKIE))
    assert asked == [NAME]


async def test_it_closes_what_the_lock_made(lock: MemoryRefreshLock) -> None:
    closed = asyncio.Event()

    class Closing(WithoutMemory):
        async def aclose(self) -> None:
            closed.set()

    await a_process(Closing()).aclose()
    assert closed.is_set()
