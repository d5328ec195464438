"""The transitions of the refresh record, the same in memory, on Redis and on SQL."""

from __future__ import annotations

import asyncio
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis
from sqlalchemy import update

from fastapi_oidc import Clock, MemoryRefreshLock
from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.records import (
    Advance,
    Phase,
    RefreshRecord,
    RefreshRecords,
    SealedRecords,
    Take,
    advanced,
    end_reason_in,
    taken,
)
from fastapi_oidc.session.redis import RedisRefreshLock
from fastapi_oidc.session.sealing import KeyRing
from fastapi_oidc.session.sql import SQLSessionStore
from fastapi_oidc.session.sql.tables import refreshes
from tests.oidc.session.conftest import empty_sql_store, url_of
from tests.oidc.session.examples import User

NAME = "session-1"
HOLD, ANSWERED_HOLD = 1000.0, 400.0
LIFETIME = 100_000
# No sum of a few of them comes near HOLD: the clock of Redis goes on while a test runs.
MINUTES, LONGER_THAN_A_HOLD, SET_BACK = 307.0, 1103.0, -5003.0


class TimedRecords(ABC):
    """Records, with control of the clock of their deadlines."""

    records: RefreshRecords

    @abstractmethod
    async def pass_time(self, seconds: float) -> None: ...

    async def do(self, step: Take | Advance | float, name: str = NAME) -> RefreshRecord | bool:
        """What a caller learns of one step; a number of seconds passes by."""
        if isinstance(step, Advance):
            return await self.records.advance(name, step, lifetime=LIFETIME)
        if isinstance(step, Take):
            record = await self.records.take(name, step, lifetime=LIFETIME)
            has_it = record.owner == step.owner and record.phase in (Phase.SENT, Phase.ANSWERED)
            # Whoever owns the record makes the next session, and needs no earlier one of it.
            return replace(record, held_until=0.0, session=b"" if has_it else record.session)
        await self.pass_time(step)
        return True

    async def seen(self, name: str = NAME) -> RefreshRecord:
        return replace(await self.records.look(name), held_until=0.0)


class FunctionRecords(TimedRecords, RefreshRecords):
    """The two functions that say what the record becomes, and nothing else."""

    def __init__(self) -> None:
        self.records, self.now, self.table = self, 1e9, dict[str, RefreshRecord]()

    async def pass_time(self, seconds: float) -> None:
        self.now += seconds

    async def take(self, id: str, take: Take, *, lifetime: int) -> RefreshRecord:
        self.table[id] = taken(await self.look(id), take, self.now)
        return self.table[id]

    async def advance(self, id: str, change: Advance, *, lifetime: int) -> bool:
        record = advanced(await self.look(id), change, self.now)
        if record is not None:
            self.table[id] = record
        return record is not None

    async def look(self, id: str) -> RefreshRecord:
        return self.table.get(id, RefreshRecord())


class MemoryRecords(TimedRecords):
    def __init__(self) -> None:
        self.now = 1e9
        self.records = MemoryRefreshLock(clock=Clock(read=lambda: self.now))

    async def pass_time(self, seconds: float) -> None:
        self.now += seconds


class RedisRecords(TimedRecords):
    def __init__(self, client: Redis) -> None:
        self.client, self.prefix = client, f"{secrets.token_hex(8)}:"
        self.records = RedisRefreshLock(client, prefix=self.prefix)

    async def pass_time(self, seconds: float) -> None:
        """Nobody can set the clock of Redis; each deadline is moved instead."""
        for key in await self.client.keys(f"{self.prefix}*"):
            await self.client.hincrby(key, "u", -int(seconds * 1000))


class SQLRecords(TimedRecords):
    def __init__(self, store: SQLSessionStore[User]) -> None:
        self.store, self.records = store, store.records

    async def pass_time(self, seconds: float) -> None:
        """Nobody can set the clock of the database server; each deadline is moved instead."""
        moved = update(refreshes).values(held_until=refreshes.c.held_until - seconds)
        await self.store._database.run(moved, {})


@asynccontextmanager
async def every_kind(redis_url: str, *sql_urls: str) -> AsyncIterator[list[TimedRecords]]:
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Redis.from_url(redis_url))
        stores = [await stack.enter_async_context(empty_sql_store(url)) for url in sql_urls]
        on_sql = [SQLRecords(store) for store in stores]
        yield [FunctionRecords(), MemoryRecords(), RedisRecords(client), *on_sql]


@pytest.fixture(params=["functions", "memory", "redis", "postgresql", "sqlite"])
async def timed(request: pytest.FixtureRequest, redis: Redis) -> AsyncIterator[TimedRecords]:
    match request.param:
        case "functions":
            yield FunctionRecords()
        case "memory":
            yield MemoryRecords()
        case "redis":
            yield RedisRecords(redis)
        case database:
            async with empty_sql_store(url_of(request, database)) as store:
                yield SQLRecords(store)


def take(owner: str, generation: int = 1) -> Take:
    return Take(generation=generation, owner=owner, hold=HOLD, answered_hold=ANSWERED_HOLD)


def answered(owner: str, generation: int = 1) -> Advance:
    return Advance(
        phase=Phase.ANSWERED,
        owner=owner,
        generation=generation,
        to_generation=generation,
        data=b"response",
        hold=HOLD,
    )


def done(owner: str, generation: int = 1) -> Advance:
    to = generation + 1
    return Advance(
        phase=Phase.IDLE, owner=owner, generation=generation, to_generation=to, session=b"next"
    )


def released(owner: str, generation: int = 1) -> Advance:
    return Advance(phase=Phase.IDLE, owner=owner, generation=generation, to_generation=generation)


def released_answer(owner: str, generation: int = 1) -> Advance:
    return replace(answered(owner, generation), hold=0.0)


ENDED = Advance(phase=Phase.ENDED, data=b"signed_out")
SEEN = Advance(last_seen_at=50)

# How the owner "a" brings the record of generation 1 into each state.
STATES: dict[str, Sequence[Take | Advance | float]] = {
    "none": [],
    "idle": [take("a"), released("a")],
    "idle, later": [take("a"), done("a")],
    "sent": [take("a")],
    "sent, over": [take("a"), LONGER_THAN_A_HOLD],
    "sent, clock set back": [take("a"), SET_BACK],
    "sent, clock set back, over": [take("a"), SET_BACK, take("c"), 2 * LONGER_THAN_A_HOLD],
    "answered": [take("a"), answered("a")],
    "answered, over": [take("a"), answered("a"), LONGER_THAN_A_HOLD],
    "answered, released": [take("a"), answered("a"), released_answer("a")],
    "sent, earlier": [take("a", 0)],
    "answered, earlier": [take("a", 0), answered("a", 0)],
    "ended": [take("a"), answered("a"), ENDED],
}
OF_GENERATION_1 = [state for state in STATES if state != "none" and "earlier" not in state]
SENT = RefreshRecord(1, Phase.SENT, "b")
ANSWERED = RefreshRecord(1, Phase.ANSWERED, "b", data=b"response")
TAKEN = {
    "none": SENT,
    "idle": SENT,
    "sent, over": SENT,
    "sent, clock set back, over": SENT,
    "answered, over": ANSWERED,
    "answered, released": ANSWERED,
    "sent, earlier": SENT,
    "answered, earlier": SENT,
}
"""What the record is for the owner "b" who takes it at generation 1; elsewhere it stays."""


async def in_state(timed: TimedRecords, name: str) -> RefreshRecord:
    for step in STATES[name]:
        assert await timed.do(step)
    return await timed.seen()


@pytest.mark.parametrize("state", STATES)
async def test_another_owner_takes_the_record_or_leaves_it_as_it_was(
    timed: TimedRecords, state: str
) -> None:
    before = await in_state(timed, state)
    expected = TAKEN.get(state, before)
    assert await timed.do(take("b")) == expected
    after = await timed.seen()
    assert replace(after, session=expected.session) == expected
    if state in TAKEN:  # and holds it: the next one waits
        assert await timed.do(take("c")) == replace(expected, session=after.session)


@pytest.mark.parametrize("state", OF_GENERATION_1)
async def test_nobody_takes_an_earlier_generation(timed: TimedRecords, state: str) -> None:
    before = await in_state(timed, state)
    assert await timed.do(take("b", 0)) == before
    assert await timed.seen() == before


ADVANCES = {
    "answered": answered,
    "done": done,
    "released": released,
    "answer released": released_answer,
}
MOVED = {
    ("sent", "answered"): RefreshRecord(1, Phase.ANSWERED, "a", data=b"response"),
    ("sent", "done"): RefreshRecord(2, Phase.IDLE, "a", session=b"next"),
    ("sent", "released"): RefreshRecord(1, Phase.IDLE, "a"),
    ("answered", "answered"): RefreshRecord(1, Phase.ANSWERED, "a", data=b"response"),
    ("answered", "done"): RefreshRecord(2, Phase.IDLE, "a", session=b"next"),
    ("answered", "answer released"): RefreshRecord(1, Phase.ANSWERED, "a", data=b"response"),
    # A repetition, because the reply was lost.
    ("idle", "released"): RefreshRecord(1, Phase.IDLE, "a"),
    ("idle, later", "done"): RefreshRecord(2, Phase.IDLE, "a", session=b"next"),
}
"""What the owner "a" makes of the record of generation 1."""
HELD_NO_LONGER = ("over", "released", "clock set back")


@pytest.mark.parametrize("state", [*OF_GENERATION_1, "none"])
async def test_only_the_owner_moves_the_record_on_and_only_its_generation(
    timed: TimedRecords, state: str
) -> None:
    phase = state.split(", ")[0] if state.endswith(HELD_NO_LONGER) else state
    for number, (change, owner, generation) in enumerate(product(ADVANCES, "ab", (0, 1, 2))):
        if (phase, change) in (("sent", "answer released"), ("answered", "released")):
            continue  # nobody asks for it
        name = f"{NAME}-{number}"
        for step in STATES[state]:
            await timed.do(step, name)
        before = await timed.seen(name)
        is_allowed = owner == "a" and generation == 1 and (phase, change) in MOVED
        step = ADVANCES[change](owner, generation)
        moved = await timed.do(step, name)
        if owner == "b" or not phase.startswith("idle"):  # an owner is of one generation
            assert moved is is_allowed, (change, owner, generation)
        expected = MOVED[phase, change] if is_allowed else before
        assert await timed.seen(name) == expected, (change, owner, generation)


@pytest.mark.parametrize("state", STATES)
async def test_every_session_can_end_and_be_seen(timed: TimedRecords, state: str) -> None:
    before = await in_state(timed, state)
    for at, kept_at in ((50, 50), (40, 50)):
        assert await timed.do(replace(SEEN, last_seen_at=at)) is True
        assert await timed.seen() == replace(before, last_seen_at=kept_at)
    assert await timed.do(ENDED) is True
    ended = await timed.seen()
    assert (ended.phase, ended.last_seen_at) == (Phase.ENDED, 50)
    assert end_reason_in(ended) == "signed_out"
    assert await timed.do(take("b", 9)) == ended


async def test_the_same_owner_may_take_the_record_again(timed: TimedRecords) -> None:
    for _ in range(2):
        assert await timed.do(take("a")) == RefreshRecord(1, Phase.SENT, "a")
    await timed.do(answered("a"))
    assert await timed.do(take("a")) == RefreshRecord(1, Phase.ANSWERED, "a", data=b"response")


async def test_the_longer_of_two_holds_counts(timed: TimedRecords) -> None:
    """Of processes whose `provider_timeout` differs while a new one is rolled out."""
    await timed.do(replace(take("a"), hold=2 * HOLD))
    for seconds in (0.0, LONGER_THAN_A_HOLD):
        await timed.do(seconds)
        assert await timed.do(take("b")) == RefreshRecord(1, Phase.SENT, "a")


owners, generations = st.sampled_from("abc"), st.integers(0, 2)
steps = st.one_of(
    st.builds(take, owners, generations),
    st.builds(answered, owners, generations),
    st.builds(done, owners, generations),
    st.builds(released, owners, generations),
    st.builds(released_answer, owners, generations),
    st.builds(lambda at: Advance(last_seen_at=at), st.integers(0, 3)),
    st.just(ENDED),
    st.sampled_from([MINUTES, LONGER_THAN_A_HOLD, SET_BACK]),
)


@settings(max_examples=30)
@given(story=st.lists(st.tuples(steps, st.sampled_from([NAME, "session-2"])), max_size=12))
def test_every_kind_of_records_tells_the_same_story(
    redis_url: str, postgres_url: str, sqlite_url: str, story: list[tuple[Any, str]]
) -> None:
    async def run() -> None:
        async with every_kind(redis_url, postgres_url, sqlite_url) as kinds:
            for step, name in story:
                answers = [await timed.do(step, name) for timed in kinds]
                looks = [await timed.seen(name) for timed in kinds]
                assert answers == answers[:1] * len(kinds)
                assert looks == looks[:1] * len(kinds)

    asyncio.run(run())


@pytest.mark.parametrize("step", [take("a"), SEEN, ENDED])
async def test_no_step_shortens_the_life_of_a_record(
    redis: Redis, prefix: str, step: Take | Advance
) -> None:
    memory, kinds = MemoryRecords(), list[RefreshRecords]()
    kinds += [RedisRefreshLock(redis, prefix=prefix), memory.records]
    for each in kinds:
        for lifetime in (1000, 10):
            if isinstance(step, Take):
                await each.take(NAME, step, lifetime=lifetime)
            else:
                await each.advance(NAME, step, lifetime=lifetime)
    assert 990 < await redis.ttl(f"{prefix}refresh:{NAME}") <= 1000
    await memory.pass_time(999)
    assert await memory.records.look(NAME) != RefreshRecord()
    await memory.pass_time(2)
    assert await memory.records.look(NAME) == RefreshRecord()


def sealed(records: RefreshRecords, secret: str) -> SealedRecords:
    return SealedRecords(records, KeyRing([secret]).sealer("record"))


@pytest.mark.parametrize("step", [answered("a"), done("a")])
async def test_what_a_record_holds_is_sealed_for_its_session_and_secret(step: Advance) -> None:
    timed, secret = FunctionRecords(), secrets.token_urlsafe(32)
    records, stranger = sealed(timed, secret), sealed(timed, secrets.token_urlsafe(32))
    await records.take(NAME, take("a"), lifetime=LIFETIME)
    await records.advance(NAME, step, lifetime=LIFETIME)
    opened = await records.look(NAME)
    assert (opened.data, opened.session) == (step.data, step.session)
    assert step.data + step.session not in timed.table[NAME].data + timed.table[NAME].session
    timed.table["session-2"] = timed.table[NAME]
    for reader, name in ((stranger, NAME), (records, "session-2")):
        with pytest.raises(SessionError) as caught:
            await reader.look(name)
        assert caught.value.code is Code.SESSION_LOCK_UNAVAILABLE


async def test_records_that_fail_are_an_outage() -> None:
    class Down(FunctionRecords):
        async def look(self, id: str) -> RefreshRecord:
            raise ConnectionError("down")

    records = sealed(Down(), secrets.token_urlsafe(32))
    for call in (
        records.look(NAME),
        records.take(NAME, take("a"), lifetime=1),
        records.advance(NAME, SEEN, lifetime=1),
    ):
        with pytest.raises(SessionError) as caught:
            await call
        assert caught.value.code is Code.SESSION_LOCK_UNAVAILABLE


async def test_a_response_that_was_taken_over_is_owned_for_its_own_time(
    timed: TimedRecords,
) -> None:
    for step in (take("a"), answered("a"), HOLD + 1):
        await timed.do(step)
    for seconds, owner in ((0.0, "b"), (ANSWERED_HOLD - 1, "b"), (2.0, "c")):
        await timed.do(seconds)
        record = await timed.do(take("c" if seconds else "b"))
        assert isinstance(record, RefreshRecord)
        assert (record.phase, record.owner) == (Phase.ANSWERED, owner)
