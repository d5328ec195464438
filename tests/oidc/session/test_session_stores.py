"""The contract of `SessionStore`, for every implementation."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.session.memory import MemorySessionStore
from fastapi_oidc.session.model import OIDCSession
from fastapi_oidc.session.redis import RedisSessionStore
from fastapi_oidc.session.revocations import digests_of
from fastapi_oidc.session.stores import SessionStore, require_option
from tests.oidc.session.conftest import MovableClock, empty_sql_store, url_of
from tests.oidc.session.dictionary_stores import DictionaryStore
from tests.oidc.session.examples import NOW, OLD_SECRET, SECRET, User, a_record, a_session, bound

ID = "a" * 43
ALICE = ("https://op.example.com", "app", "alice")


@pytest.fixture(params=["dictionary", "memory", "redis", "postgresql", "sqlite"])
async def store(
    request: pytest.FixtureRequest, moving: MovableClock, redis: Redis, prefix: str
) -> AsyncIterator[SessionStore[User]]:
    match request.param:
        case "dictionary":
            yield DictionaryStore()
        case "memory":
            yield MemorySessionStore(clock=moving.clock)
        case "redis":
            yield bound(RedisSessionStore(redis, User, prefix=prefix))
        case database:
            async with empty_sql_store(url_of(request, database)) as on_sql:
                yield on_sql


async def test_an_unknown_id_is_no_session(store: SessionStore[User]) -> None:
    assert await store.get(ID) is None
    assert await store.find(ID, ()) == (None, None)


async def test_a_session_comes_back_as_it_was(store: SessionStore[User]) -> None:
    await store.set(ID, a_session())
    assert await store.get(ID) == a_session()
    assert await store.find(ID, digests_of(a_session())) == (a_session(), None)
    assert await store.get(ID.upper()) is None


async def test_a_deleted_session_is_gone(store: SessionStore[User]) -> None:
    await store.set(ID, a_session())
    await store.delete(ID)
    await store.delete(ID)
    assert await store.get(ID) is None


async def test_a_session_replaces_an_earlier_generation_alone(store: SessionStore[User]) -> None:
    first, second = (a_session().model_copy(update={"generation": n}) for n in (1, 2))
    assert not await store.replace(ID, first)
    assert await store.get(ID) is None
    await store.set(ID, a_session())
    assert await store.replace(ID, second)
    assert not await store.replace(ID, first)
    assert not await store.replace(ID, second)
    assert await store.get(ID) == second


async def test_a_use_is_recorded_beside_the_session(store: SessionStore[User]) -> None:
    if not store.records_last_use:
        return
    await store.touch(ID, NOW)
    await store.set(ID, a_session())
    await store.touch(ID, NOW + 60)
    await store.touch(ID, NOW + 30)
    await store.replace(ID, a_session().model_copy(update={"generation": 1}))
    session = await store.get(ID)
    assert session is not None
    assert (session.generation, session.last_seen_at) == (1, NOW + 60)


async def test_sessions_and_revocations_are_found_in_one_step(store: SessionStore[User]) -> None:
    if store.revocations is None:
        return
    await store.set(ID, a_session())
    await store.revocations.revoke(a_record())
    digests = digests_of(a_session())
    for known in (digests, (), digests_of(a_session(sid="another"))):
        assert await store.find(ID, known) == (a_session(), "ended_by_provider")


async def test_a_session_is_found_by_its_own_id_until_it_is_deleted(
    store: SessionStore[User],
) -> None:
    if isinstance(store, DictionaryStore):
        with pytest.raises(ConfigurationError, match="find_by_session_id") as caught:
            await store.find_by_session_id(a_session().id)
        assert caught.value.code is Code.CONFIGURATION_STORE_MISSING
        return
    assert await store.find_by_session_id(a_session().id) is None
    await store.set(ID, a_session())
    assert await store.find_by_session_id(a_session().id) == (ID, a_session())
    later = a_session().model_copy(update={"generation": 1})
    await store.replace(ID, later)
    assert await store.find_by_session_id(a_session().id) == (ID, later)
    assert await store.find_by_session_id("another") is None
    await store.delete(ID)
    assert await store.find_by_session_id(a_session().id) is None


async def test_the_name_of_a_row_by_session_id_goes_with_it(redis: Redis, prefix: str) -> None:
    store, index = bound(RedisSessionStore(redis, User, prefix=prefix)), f"{prefix}session_id:"
    await store.set(ID, a_session())
    assert await redis.expiretime(index + a_session().id) == a_session().expires_at
    await redis.set(f"{index}another", ID)
    assert await store.find_by_session_id("another") is None, "the row says whose it is"
    await store.delete(ID)
    assert not await redis.exists(index + a_session().id)


async def test_a_row_expires_with_its_session(redis: Redis, prefix: str) -> None:
    await bound(RedisSessionStore(redis, User, prefix=prefix)).set(ID, a_session())
    assert await redis.expiretime(f"{prefix}session:{ID}") == a_session().expires_at


async def test_a_row_of_another_identity_type_is_no_session(redis: Redis, prefix: str) -> None:
    old = OIDCSession[str].model_construct(**dict(a_session()) | {"identity": "alice"})
    await bound(RedisSessionStore(redis, str, prefix=prefix), identity_type=str).set(ID, old)
    assert await bound(RedisSessionStore(redis, User, prefix=prefix)).get(ID) is None


async def test_a_sealed_row_opens_in_its_place_and_with_its_secret_alone(
    redis: Redis, prefix: str
) -> None:
    def of(*secrets: str) -> RedisSessionStore[User]:
        return bound(RedisSessionStore(redis, User, prefix=prefix), *secrets)

    await of(OLD_SECRET).set(ID, a_session())
    row = await redis.get(f"{prefix}session:{ID}")
    assert isinstance(row, bytes)
    assert b"alice" not in row
    assert await of(SECRET, OLD_SECRET).get(ID) == a_session()
    assert await of(SECRET).get(ID) is None
    await redis.set(f"{prefix}session:{'b' * 43}", row)
    assert await of(OLD_SECRET).get("b" * 43) is None
    unbound = RedisSessionStore(redis, User, prefix=prefix)
    for call in (unbound.get(ID), unbound.set(ID, a_session())):
        with pytest.raises(ConfigurationError, match="whose cookie_secret seals its rows"):
            await call


async def test_a_row_that_nobody_wrote_is_no_session(redis: Redis, prefix: str) -> None:
    store = bound(RedisSessionStore(redis, User, prefix=prefix))
    for row in (b"", b"s", b"s" + b"x" * 20 + b"{}", b"{}", b"c" + b"0" * 20 + b"{}"):
        await redis.set(f"{prefix}session:{ID}", row)
        assert await store.get(ID) is None
        assert not await store.replace(ID, a_session().model_copy(update={"generation": 1}))
        await store.touch(ID, NOW)
        assert await redis.get(f"{prefix}session:{ID}") == row


async def test_a_users_sessions_are_listed_the_first_to_end_first(
    store: SessionStore[User],
) -> None:
    if isinstance(store, DictionaryStore):
        with pytest.raises(ConfigurationError, match="does not implement"):
            await store.sessions_of(*ALICE)
        return
    for number in (2, 0, 1):
        session = a_session(id=f"session-{number}", expires_at=NOW + 28_800 + number)
        await store.set(f"{number}" * 43, session)
    await store.delete("1" * 43)
    await store.set(ID, a_session(sub="bob"))
    listed = [each.id for each in await store.sessions_of(*ALICE)]
    assert sorted(listed) == ["session-0", "session-2"]
    assert listed == sorted(listed) or isinstance(store, MemorySessionStore)
    assert await store.sessions_of(*ALICE[:2], "carol") == []


async def test_the_list_of_a_user_has_no_name_and_no_deleted_row(redis: Redis, prefix: str) -> None:
    store = bound(RedisSessionStore(redis, User, prefix=prefix))
    for id in (ID, "b" * 43):
        await store.set(id, a_session())
    await store.delete(ID)
    assert await store.sessions_of(*ALICE) == [a_session()]
    (key,) = [key async for key in redis.scan_iter(f"{prefix}sessions_of:*")]
    assert b"alice" not in key
    assert await redis.zcard(key) == 1


async def test_a_client_that_decodes_replies_is_refused(redis_url: str) -> None:
    client = Redis.from_url(redis_url, decode_responses=True)
    with pytest.raises(ConfigurationError, match="decode_responses") as caught:
        RedisSessionStore(client, User)
    assert caught.value.code is Code.CONFIGURATION_INVALID
    await client.aclose()


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("redis://app:secret@host", "a text"),
        (DictionaryStore, "the class DictionaryStore, not an instance of it"),
        ({}, "an instance of dict"),
    ],
)
def test_an_option_that_is_no_store_is_refused_where_it_is_written(
    value: object, named: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        require_option("session_store", value, SessionStore, memory=True)
    expected = f'session_store is {named}; give an instance of SessionStore, or "memory"'
    assert caught.value.explanation == expected
    for good in (None, "memory", DictionaryStore()):
        require_option("session_store", good, SessionStore, memory=True)
