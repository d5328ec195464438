"""A store made of an application's own three methods, with a lock or without one."""

import dataclasses
import pickle
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, OIDCError, SessionError
from fastapi_oidc.session.cells import Cells
from fastapi_oidc.session.cookies import KeyRing
from fastapi_oidc.session.own_store import (
    ExclusiveStore,
    LockOfThisLoop,
    RefreshLock,
    Result,
    SealedSession,
    SessionStore,
)
from fastapi_oidc.session.store import ask_store
from tests.oidc.protocol.examples import refused
from tests.oidc.session.examples import NOW, SECRET
from tests.oidc.session.values import KEY, ONE

SESSION = SealedSession(b"\x00\xffone", NOW + 60, NOW + 0.25)


class Dictionary(SessionStore):
    """Plain sync methods."""

    def __init__(self) -> None:
        self.rows: dict[str, SealedSession] = {}

    def get(self, id: str, /) -> SealedSession | None:
        return self.rows.get(id)

    def set(self, id: str, session: SealedSession, /) -> None:
        self.rows[id] = session

    def delete(self, id: str, /) -> None:
        self.rows.pop(id, None)


class CountingLock(LockOfThisLoop):
    def __init__(self) -> None:
        super().__init__()
        self.held: list[str] = []

    async def run_exclusive(
        self, session_id: str, operation: Callable[[], Awaitable[Result]], /
    ) -> Result:
        self.held.append(session_id)
        return await super().run_exclusive(session_id, operation)


class ForgetfulLock(RefreshLock):
    """Returns no result, as an untyped application might."""

    async def run_exclusive(
        self, session_id: str, operation: Callable[[], Awaitable[Any]], /
    ) -> Any:
        await operation()


class Wrong(Dictionary):
    def __init__(self, wrong: object) -> None:
        super().__init__()
        self.wrong = wrong

    def get(self, id: str, /) -> SealedSession | None:
        if self.wrong is KeyError:
            raise KeyError(id)
        return self.wrong  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("{}", "SessionStore.get returned str, not SealedSession or None"),
        (
            KeyError,
            f"the store raised KeyError in get, line .* of {re.escape(__file__)}: get returns None",
        ),
    ],
)
async def test_a_method_that_does_something_else_is_named(wrong: object, said: str) -> None:
    with pytest.raises(OIDCError, match=said):
        await ask_store(ExclusiveStore(Wrong(wrong)).read([KEY]))


async def test_a_value_is_compared_and_replaced_within_the_lock() -> None:
    lock = CountingLock()
    store = ExclusiveStore(Dictionary(), lock)
    await store.read([KEY])
    await store.swap(KEY, None, ONE)
    assert lock.held == []
    await store.swap(KEY, b"", ONE)
    assert lock.held == [KEY]


async def test_a_lock_that_loses_results_is_noticed_at_once() -> None:
    sealer = KeyRing([SECRET]).sealer("row")
    cells = Cells(ExclusiveStore(Dictionary(), ForgetfulLock()), sealer, Clock())
    with refused(Code.SESSION_STORE_UNAVAILABLE, SessionError):
        await cells.change(KEY, lambda _: ONE)


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
