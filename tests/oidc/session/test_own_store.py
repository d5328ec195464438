"""A store made of an application's own three methods, with a lock or without one."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import pickle
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.own_store import (
    ExclusiveStore,
    LockOfThisLoop,
    RefreshLock,
    Result,
    SealedSession,
    SessionStore,
)
from fastapi_oidc.session.store import Cell, Found
from tests.oidc.protocol.examples import refused
from tests.oidc.session.conftest import MovableClock
from tests.oidc.session.examples import NOW
from tests.oidc.session.values import KEY, LATER, ONE, calls_of

SESSION = SealedSession(b"\x00\xffone", NOW + 60, NOW + 0.25)


class Dictionary(SessionStore):
    """Plain sync methods."""

    def __init__(self) -> None:
        self.rows: dict[str, SealedSession] = {}
        self.is_closed = False

    def get(self, id: str, /) -> SealedSession | None:
        return self.rows.get(id)

    def set(self, id: str, session: SealedSession, /) -> None:
        self.rows[id] = session

    def delete(self, id: str, /) -> None:
        del self.rows[id]

    async def aclose(self) -> None:
        self.is_closed = True


class Texts(SessionStore):
    """Async methods, and rows of text, as a database may have them."""

    def __init__(self) -> None:
        self.rows: dict[str, str] = {}

    async def get(self, id: str, /) -> SealedSession | None:
        await asyncio.sleep(0)
        return SealedSession.from_json(self.rows[id]) if id in self.rows else None

    async def set(self, id: str, session: SealedSession, /) -> None:
        await asyncio.sleep(0)
        self.rows[id] = session.to_json()

    async def delete(self, id: str, /) -> None:
        await asyncio.sleep(0)
        self.rows.pop(id, None)


class CountingLock(LockOfThisLoop):
    def __init__(self) -> None:
        super().__init__()
        self.held: list[str] = []
        self.is_closed = False

    async def run_exclusive(
        self, session_id: str, operation: Callable[[], Awaitable[Result]], /
    ) -> Result:
        self.held.append(session_id)
        return await super().run_exclusive(session_id, operation)

    async def aclose(self) -> None:
        self.is_closed = True


class ForgetfulLock(RefreshLock):
    """Returns no result, as an untyped application might."""

    async def run_exclusive(
        self, session_id: str, operation: Callable[[], Awaitable[Any]], /
    ) -> Any:
        await operation()


@pytest.mark.parametrize("made", [Dictionary, Texts])
async def test_three_methods_are_a_store(made: type[SessionStore], moving: MovableClock) -> None:
    store = ExclusiveStore(made(), clock=moving.clock)
    assert await store.swap(KEY, b"", Cell(b"one", NOW + 60)) is None
    moving.second += 7
    assert await store.swap(KEY, None, ONE) == Found(b"one", 7)
    assert await store.swap(KEY, b"one", Cell(b"two", NOW + 60)) is None
    assert await store.read([KEY, "another"]) == [b"two", b""]
    moving.second = NOW + 60
    assert await store.read([KEY]) == [b""], "a store need not delete what has ended"
    assert await store.swap(KEY, b"", Cell(b"three", NOW + 90)) is None
    assert await store.swap(KEY, b"three", Cell(b"", 0)) is None
    assert await store.read([KEY]) == [b""]


async def test_a_value_is_compared_and_replaced_within_the_lock() -> None:
    lock = CountingLock()
    store = ExclusiveStore(Texts(), lock)
    await store.read([KEY])
    await store.swap(KEY, None, ONE)
    assert lock.held == []
    await store.swap(KEY, b"", ONE)
    assert lock.held == [KEY]


async def test_a_lock_that_loses_results_is_noticed_at_once() -> None:
    store = ExclusiveStore(Dictionary(), ForgetfulLock())
    with refused(Code.SESSION_STORE_UNAVAILABLE, SessionError):
        await store.swap(KEY, b"", ONE)


async def test_keys_are_read_concurrently() -> None:
    class Meeting(Texts):
        async def get(self, id: str, /) -> SealedSession | None:
            await all_here.wait()
            return await super().get(id)

    all_here = asyncio.Barrier(3)
    async with asyncio.timeout(5):
        assert await ExclusiveStore(Meeting()).read(["a", "b", "c"]) == [b""] * 3


async def test_an_exception_of_the_application_is_an_outage() -> None:
    class Broken(Dictionary):
        def get(self, id: str, /) -> SealedSession | None:
            raise KeyError(id)

    for call in calls_of(ExclusiveStore(Broken())):
        with refused(Code.SESSION_STORE_UNAVAILABLE, SessionError):
            await call


async def test_store_and_lock_are_closed() -> None:
    own, lock = Dictionary(), CountingLock()
    await ExclusiveStore(own, lock).aclose()
    assert (own.is_closed, lock.is_closed) == (True, True)


def test_without_a_lock_a_store_works_in_one_event_loop_after_another() -> None:
    store = ExclusiveStore(Texts())

    async def append(letter: bytes) -> None:
        await store.move(KEY, lambda value, age: Cell(value + letter, LATER))

    async def all_append() -> bytes:
        await asyncio.gather(*(append(b"x") for _ in range(5)))
        return (await store.read([KEY]))[0]

    assert [asyncio.run(all_append()) for _ in range(3)] == [b"x" * 5, b"x" * 10, b"x" * 15]


async def test_locks_end_with_their_use() -> None:
    lock = LockOfThisLoop()

    async def answer() -> int:
        return len(lock._locks)

    assert await lock.run_exclusive(KEY, answer) == 1
    gc.collect()
    assert len(lock._locks) == 0


def test_a_sealed_session_is_a_value() -> None:
    assert pickle.loads(pickle.dumps(SESSION)) == SESSION
    assert SealedSession.from_json(SESSION.to_json()) == SESSION
    assert SealedSession.from_json(SESSION.to_json().encode()) == SESSION
    assert "one" not in repr(SESSION)
    with pytest.raises(dataclasses.FrozenInstanceError):
        SESSION.content = b"another"  # type: ignore[misc]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"content": "secret!", "expires_at": 1, "written_at": 1}',
        '{"content": "c2VjcmV0", "expires_at": "soon", "written_at": 1}',
    ],
)
def test_another_text_is_no_sealed_session(text: str) -> None:
    with pytest.raises(ValueError, match="no sealed session") as caught:
        SealedSession.from_json(text)
    assert caught.value.__cause__ is None
