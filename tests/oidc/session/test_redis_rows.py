"""Rows on Redis: sealed with the key ring, bound to their place, and those of 0.1.0."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from fastapi_oidc.session.codec import SessionCodec
from fastapi_oidc.session.endings import ending_of
from fastapi_oidc.session.redis import RedisSessionStore
from fastapi_oidc.session.redis.rows import RowCodec
from fastapi_oidc.session.sealing import KeyRing
from tests.oidc.session.examples import NOW, OLD_SECRET, SECRET, User, a_session
from tests.oidc.session.test_opener import CountedSealer

ID, OTHER_ID = "a" * 43, "b" * 43


class Rows:
    """One place on Redis, and stores of several key rings that share it."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self.redis, self.prefix = redis, prefix

    def store(self, *secrets: str, reads_clear_rows: bool = True) -> RedisSessionStore[User]:
        store = RedisSessionStore(
            self.redis, User, prefix=self.prefix, reads_clear_rows=reads_clear_rows
        )
        if secrets:
            store.bind(SessionCodec(User), KeyRing(secrets).sealer("row"))
        return store

    async def raw(self) -> bytes:
        row = await self.redis.get(f"{self.prefix}session:{ID}")
        assert isinstance(row, bytes)
        return row

    async def put(self, row: bytes, id: str = ID) -> None:
        await self.redis.set(f"{self.prefix}session:{id}", row)


@pytest.fixture
def rows(redis: Redis, prefix: str) -> Rows:
    return Rows(redis, prefix)


async def test_a_sealed_row_shows_nothing_of_the_session(rows: Rows) -> None:
    await rows.store(SECRET).set(ID, a_session())
    row = await rows.raw()
    assert not any(text in row for text in (b"alice", b"access", b"id.to.ken"))
    assert await rows.store(OLD_SECRET).get(ID) is None
    assert await rows.store().get(ID) is None


async def test_a_sealed_row_opens_in_its_own_place_alone(rows: Rows) -> None:
    await rows.store(SECRET).set(ID, a_session())
    await rows.put(await rows.raw(), id=OTHER_ID)
    assert await rows.store(SECRET).get(OTHER_ID) is None
    assert await rows.store(SECRET).get(ID) == a_session()


async def test_a_row_that_was_just_opened_does_not_open_in_another_place(rows: Rows) -> None:
    store = rows.store(SECRET)
    await store.set(ID, a_session())
    assert await store.get(ID) == a_session()
    await rows.put(await rows.raw(), id=OTHER_ID)
    assert await store.get(OTHER_ID) is None
    assert await store.get(ID) == a_session()


async def test_a_row_is_read_as_it_is_now(rows: Rows) -> None:
    store = rows.store(SECRET)
    for session in (a_session(), a_session(id="session-2"), a_session()):
        await store.set(ID, session)
        assert await store.get(ID) == await store.get(ID) == session
        await store.touch(ID, NOW)
        assert await store.get(ID) == session.model_copy(update={"last_seen_at": NOW})


async def test_a_changed_row_does_not_open(rows: Rows) -> None:
    await rows.store(SECRET).set(ID, a_session())
    row = bytearray(await rows.raw())
    row[-1] ^= 1
    await rows.put(bytes(row))
    assert await rows.store(SECRET).get(ID) is None


async def test_keys_rotate(rows: Rows) -> None:
    await rows.store(OLD_SECRET).set(ID, a_session())
    rotated = rows.store(SECRET, OLD_SECRET)
    assert await rotated.get(ID) == a_session()
    await rotated.replace(ID, a_session())
    assert await rows.store(SECRET).get(ID) == a_session()


async def test_instances_with_other_secrets_share_a_store(rows: Rows) -> None:
    shared = rows.store(SECRET)
    shared.bind(SessionCodec(User), KeyRing([OLD_SECRET]).sealer("row"))
    await rows.store(OLD_SECRET).set(OTHER_ID, a_session())
    await shared.set(ID, a_session())
    assert await shared.get(OTHER_ID) == a_session()
    assert await rows.store(SECRET).get(ID) == a_session()


async def test_rows_of_0_1_0_are_read(rows: Rows) -> None:
    await rows.put(SessionCodec(User).encode(a_session()))
    assert await rows.store(SECRET).get(ID) == await rows.store().get(ID) == a_session()


async def test_a_use_leaves_a_row_of_0_1_0_as_it_is(rows: Rows) -> None:
    row = SessionCodec(User).encode(a_session())
    await rows.put(row)
    await rows.store(SECRET).touch(ID, NOW)
    assert await rows.raw() == row


@pytest.mark.parametrize("writer", ["0.1.0", "unbound"])
async def test_clear_rows_can_be_refused(rows: Rows, writer: str) -> None:
    if writer == "0.1.0":
        await rows.put(SessionCodec(User).encode(a_session()))
    else:
        await rows.store().set(ID, a_session())
    assert await rows.store(SECRET).get(ID) == a_session()
    assert await rows.store(SECRET, reads_clear_rows=False).get(ID) is None


async def test_options_given_with_a_url_are_the_stores(
    rows: Rows, redis_url: str, prefix: str
) -> None:
    await rows.put(SessionCodec(User).encode(a_session()))
    for options, found in (({}, a_session()), ({"reads_clear_rows": False}, None)):
        store = RedisSessionStore.from_url(redis_url, User, prefix=prefix, **options)
        store.bind(SessionCodec(User), KeyRing([SECRET]).sealer("row"))
        assert await store.get(ID) == found
        await store.aclose()


@pytest.mark.parametrize("row", [b"", b"s", b"c", b"c000000000", b"s0000000000short", b"cnever"])
async def test_what_nobody_wrote_is_no_session(rows: Rows, row: bytes) -> None:
    await rows.put(row)
    assert await rows.store(SECRET).get(ID) is None
    assert await rows.store().get(ID) is None


async def test_a_row_whose_last_use_was_changed_to_no_time_is_no_session(rows: Rows) -> None:
    await rows.store(SECRET).set(ID, a_session())
    row = await rows.raw()
    await rows.put(row[:1] + b"long ago.." + row[11:])
    assert await rows.store(SECRET).get(ID) is None


async def test_a_session_that_is_over_already_makes_no_row_and_no_outage(rows: Rows) -> None:
    over = a_session(expires_at=1)
    store = rows.store(SECRET)
    await store.set(ID, a_session())
    assert await store.replace(ID, over)
    assert await store.get(ID) is None
    await store.set(ID, over)
    await store.revoke(ending_of(over, "signed_out", NOW))
    assert await store.get(ID) is None


@pytest.mark.parametrize(("length", "times"), [(5_000, 1), (7_000, 2)])
def test_a_row_on_redis_is_unsealed_once_unless_it_is_large(length: int, times: int) -> None:
    sealer = CountedSealer(KeyRing([SECRET]).keys("row"))
    rows = RowCodec(User, reads_clear_rows=False)
    rows.seal_with(sealer)
    session = a_session(claims={"text": "x" * length})
    row = rows.encode("id", session)
    assert rows.decode("id", row) == rows.decode("id", row) == session
    assert sealer.opened == times
