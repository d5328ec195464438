"""How the stores in memory keep rows, lists of users and endings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.session.codec import SessionCodec
from fastapi_oidc.session.memory import MemoryRevocationStore, MemorySessionStore
from fastapi_oidc.session.model import OIDCSession
from fastapi_oidc.session.revocations import RevocationStore
from fastapi_oidc.session.sealing import KeyRing
from tests.oidc.protocol.examples import refused
from tests.oidc.session.conftest import MovableClock
from tests.oidc.session.examples import NOW, SECRET, User, a_record, a_session

ID, OTHER_ID = "a" * 43, "b" * 43
ALICE = ("https://op.example.com", "app", "alice")


def revocation_stores(clock: Clock, limit: int) -> tuple[RevocationStore, ...]:
    """Both, each with room for so many records."""
    return (
        MemoryRevocationStore(clock=clock, max_records=limit),
        MemorySessionStore(clock=clock, max_sessions=limit).revocations,
    )


async def test_a_record_is_forgotten_at_its_end(moving: MovableClock) -> None:
    for store in revocation_stores(moving.clock, 10):
        moving.second = NOW
        await store.revoke(a_record(expires_at=NOW + 100))
        await store.revoke(a_record(expires_at=NOW + 50))
        moving.second = NOW + 99
        assert await store.ended_by(a_session())
        moving.second = NOW + 100
        assert not await store.ended_by(a_session())


async def test_it_is_known_without_a_question_whether_there_was_ever_a_record(
    moving: MovableClock,
) -> None:
    store = MemoryRevocationStore(clock=moving.clock)
    assert not store.has_records
    await store.revoke(a_record(expires_at=NOW + 100))
    moving.second = NOW + 100
    assert store.has_records


async def test_when_full_it_refuses_rather_than_forget(moving: MovableClock) -> None:
    for store in revocation_stores(moving.clock, 1):
        for _ in range(2):
            await store.revoke(a_record())
        with refused(Code.SESSION_REVOCATION_UNAVAILABLE, SessionError):
            await store.revoke(a_record(sid=None, sub="alice"))
        assert await store.ended_by(a_session())


class CountingCodec(SessionCodec[User]):
    """Counts what it reads."""

    decoded = 0

    def decode(self, encoded: bytes) -> OIDCSession[User]:
        self.decoded += 1
        return super().decode(encoded)


async def test_rows_are_encoded_once_the_identity_is_known(moving: MovableClock) -> None:
    store = MemorySessionStore[User](clock=moving.clock)
    await store.set(ID, a_session())
    store.bind(SessionCodec(User), KeyRing([SECRET]).sealer("row"))
    await store.set(OTHER_ID, a_session())
    assert await store.get(ID) == await store.get(OTHER_ID) == a_session()


async def test_an_encoded_row_is_of_the_identity_type_that_it_is_bound_to(
    moving: MovableClock,
) -> None:
    @dataclass(frozen=True)
    class Guest(User):
        invited_by: str = "bob"

    store = MemorySessionStore[User](clock=moving.clock)
    store.bind(SessionCodec(User), KeyRing([SECRET]).sealer("row"))
    guest = Guest(sub="alice", name="Alice")
    await store.set(ID, a_session().model_copy(update={"identity": guest}))
    found = await store.get(ID)
    assert found is not None
    assert found.identity == User(sub="alice", name="Alice")


async def test_a_row_is_encoded_from_the_first_where_the_identity_type_is_given(
    moving: MovableClock,
) -> None:
    store = MemorySessionStore(clock=moving.clock, identity_type=User)
    stranger: Any = a_session().model_copy(update={"identity": "alice"})
    with pytest.raises(ConfigurationError, match="is its identity a"):
        await store.set(ID, stranger)


@pytest.mark.parametrize(("kibibytes", "times"), [(5, 3), (7, 5)])
async def test_a_row_that_is_read_again_is_decoded_no_more_unless_it_is_large(
    moving: MovableClock, kibibytes: int, times: int
) -> None:
    """Larger than six KiB: with what it holds, it is not cached."""
    codec = CountingCodec(User)
    store = MemorySessionStore[User](clock=moving.clock)
    store.bind(codec, KeyRing([SECRET]).sealer("row"))
    await store.set(ID, a_session(claims={"text": "x" * kibibytes * 1024}))
    codec.decoded = 0
    for _ in range(5):
        await store.get(ID)
    assert codec.decoded == times


async def test_a_deleted_session_leaves_the_list_of_its_user(moving: MovableClock) -> None:
    store = MemorySessionStore[User](clock=moving.clock)
    for id in (ID, OTHER_ID):
        await store.set(id, a_session())
    await store.delete(ID)
    assert list(store._users.get(ALICE) or ()) == [OTHER_ID]


async def test_a_login_looks_at_four_of_a_users_sessions_at_the_most(moving: MovableClock) -> None:
    store = MemorySessionStore[User](clock=moving.clock)
    for number in range(10):
        await store.set(str(number), a_session(expires_at=moving.second + 60))
    await store.set(ID, a_session())
    moving.second += 60
    await store.set(OTHER_ID, a_session())
    assert list(store._users.get(ALICE) or ()) == ["4", "5", "6", "7", "8", "9", ID, OTHER_ID]


async def test_the_list_of_a_user_ends_with_the_last_session(moving: MovableClock) -> None:
    store = MemorySessionStore[User](clock=moving.clock)
    await store.set(ID, a_session(id="long"))
    await store.set(OTHER_ID, a_session(id="short", expires_at=moving.second + 60))
    moving.second += 60
    assert [session.id for session in await store.sessions_of(*ALICE)] == ["long"]


async def test_a_session_may_end_while_it_is_deleted() -> None:
    seconds = [a_session().expires_at]
    clock = Clock(read=lambda: seconds.pop() if len(seconds) > 1 else seconds[0])
    store = MemorySessionStore[User](clock=clock)
    await store.set(ID, a_session(expires_at=seconds[0] + 1))
    seconds[:] = [seconds[0] + 1, seconds[0]]
    await store.delete(ID)
    assert await store.get(ID) is None


async def test_instances_with_other_identities_share_a_store(moving: MovableClock) -> None:
    store = MemorySessionStore[Any](clock=moving.clock)
    for identity_type in (User, str, User):
        store.bind(SessionCodec(identity_type), KeyRing([SECRET]).sealer("row"))
    of_text = OIDCSession[object](**dict(a_session()) | {"identity": "alice"})
    await store.set(ID, a_session())
    await store.set(OTHER_ID, of_text)
    assert await store.get(ID) == a_session()
    assert await store.get(OTHER_ID) == of_text


async def test_a_user_is_forgotten_with_the_last_session(moving: MovableClock) -> None:
    store = MemorySessionStore[User](clock=moving.clock)
    await store.set(ID, a_session())
    moving.second = a_session().expires_at
    assert await store.sessions_of(*ALICE) == []
    await store.set(OTHER_ID, a_session(sub="bob", expires_at=moving.second + 60))
    assert len(store._users) == 1


async def test_the_list_of_a_user_who_signs_in_often_does_not_grow(moving: MovableClock) -> None:
    store = MemorySessionStore[User](clock=moving.clock)
    for number in range(1000):
        moving.second += 60
        await store.set(str(number), a_session(expires_at=moving.second + 600))
    assert len(await store.sessions_of(*ALICE)) == 10
    assert [len(ids) < 20 for _, ids in store._users._entries.values()] == [True]
