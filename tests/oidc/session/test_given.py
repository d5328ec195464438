"""What an application may give as a store or lock, and what it is told otherwise."""

from __future__ import annotations

import pytest

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.session.given import require_stores
from fastapi_oidc.session.memory import MemoryRevocationStore, MemorySessionStore
from fastapi_oidc.session.memory_lock import MemoryRefreshLock
from tests.oidc.protocol.examples import refused


class Incomplete:
    """Has methods of every kind of store, and of none all."""

    get = revoke = delete = print
    set = is_revoked = run_exclusive = None


def fault_of(sessions: object, endings: object, lock: object) -> str:
    with pytest.raises(ConfigurationError) as caught:
        require_stores(sessions, endings, lock)
    assert caught.value.code is Code.CONFIGURATION_INVALID
    return caught.value.explanation


def test_nothing_memory_and_objects_with_every_method_are_taken() -> None:
    require_stores(None, None, None)
    require_stores("memory", "memory", None)
    require_stores(MemorySessionStore(), MemoryRevocationStore(), MemoryRefreshLock())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("redis://:password@host", "a text"),
        ("", "a text"),
        (1, "a int"),
        (MemorySessionStore, "the class MemorySessionStore, not an object of it"),
        (Incomplete(), "a Incomplete"),
    ],
)
def test_anything_else_is_refused_in_words_that_name_the_option(given: object, said: str) -> None:
    takes = "it takes an object with the methods"
    assert fault_of(given, None, None) == (
        f'session_store is {said}; {takes} get, set, delete, or "memory"'
    )
    assert fault_of(None, given, None) == (
        f'back_channel_logout_store is {said}; {takes} revoke, is_revoked, or "memory"'
    )
    assert fault_of(None, None, given) == f"refresh_lock is {said}; {takes} run_exclusive"


def test_there_is_no_lock_of_that_name() -> None:
    with refused(Code.CONFIGURATION_INVALID, ConfigurationError):
        require_stores(None, None, "memory")
