"""Sessions between requests: in cookies, in a store of the application, in memory, on Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from redis.asyncio import Redis

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.session.backend import Lookup, SessionBackend, StoredSession
from fastapi_oidc.session.codec import SessionCodec
from fastapi_oidc.session.cookie_backend import CookieBackend, SessionCookie
from fastapi_oidc.session.cookies import CookieNames
from fastapi_oidc.session.memory import MemoryRevocationStore, MemorySessionStore
from fastapi_oidc.session.model import EndReason, OIDCSession
from fastapi_oidc.session.redis import RedisRevocationStore, RedisSessionStore
from fastapi_oidc.session.reference import ReferenceCookie
from fastapi_oidc.session.revocations import RevocationStore
from fastapi_oidc.session.sealing import KeyRing
from fastapi_oidc.session.store_backend import LISTED_TOGETHER, StoreBackend
from fastapi_oidc.session.stores import SessionStore
from tests.oidc.session.dictionary_stores import DictionaryStore, ListOfRevocations
from tests.oidc.session.examples import NOW, SECRET, User, a_record, a_session, bound

NAMES = CookieNames("oidc", secure=True)
CLOCK = Clock(read=lambda: NOW)
KEYS = KeyRing([SECRET])
USER = ("https://op.example.com", "app", "alice")


def in_cookies(revocations: RevocationStore | None = None) -> CookieBackend[User]:
    cookie = SessionCookie(SessionCodec(User), KEYS.sealer("session"), NAMES, clock=CLOCK)
    return CookieBackend(cookie, NAMES, clock=CLOCK, revocations=revocations)


def in_store(
    store: SessionStore[User], revocations: RevocationStore | None = None
) -> StoreBackend[User]:
    cookie = ReferenceCookie(KEYS.sealer("reference"), NAMES, clock=CLOCK)
    codec = SessionCodec(User)
    return StoreBackend(store, cookie, NAMES, codec, clock=CLOCK, revocations=revocations)


def cookies_of(backend: SessionBackend[User], stored: StoredSession[User]) -> Mapping[str, str]:
    return {change.name: change.value or "" for change in backend.cookies(stored, NOW)}


BACKENDS = ["cookies", "dictionary", "memory", "redis", "redis, revocations beside it"]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, redis: Redis, prefix: str) -> SessionBackend[User]:
    """Each records revocations."""
    match request.param:
        case "cookies":
            return in_cookies(MemoryRevocationStore(clock=CLOCK))
        case "dictionary":
            return in_store(DictionaryStore(), ListOfRevocations())
        case "memory":
            return in_store(MemorySessionStore(clock=CLOCK))
        case "redis":
            return in_store(bound(RedisSessionStore(redis, User, prefix=prefix)))
        case _:
            store = bound(RedisSessionStore(redis, User, prefix=prefix))
            return in_store(store, RedisRevocationStore(redis, prefix=f"{prefix}beside:"))


async def test_a_saved_session_is_found_by_its_cookie(backend: SessionBackend[User]) -> None:
    stored = backend.place(a_session())
    await backend.save(stored)
    assert await backend.lookup(cookies_of(backend, stored)) == Lookup(stored)
    assert await backend.reread(stored) == Lookup(stored)


async def test_no_cookie_and_a_foreign_cookie_are_no_session(backend: SessionBackend[User]) -> None:
    for cookies in ({}, {NAMES.session: ""}, {NAMES.session: "abc"}):
        assert await backend.lookup(cookies) is None
        assert backend.hint(cookies, *USER[:2]) is None


async def test_an_ended_session_is_over_for_every_copy_of_its_cookie(
    backend: SessionBackend[User],
) -> None:
    stored = backend.place(a_session())
    await backend.save(stored)
    cookies = cookies_of(backend, stored)
    await backend.end(backend.previous(stored), "signed_out")
    lookup = await backend.lookup(cookies)
    assert lookup is None or lookup.ended == "signed_out"
    assert not await backend.replace(refreshed(stored))


async def test_a_cookie_names_its_session_without_the_store(backend: SessionBackend[User]) -> None:
    stored = backend.place(a_session())
    hint = backend.hint(cookies_of(backend, stored), *USER[:2])
    assert hint is not None
    assert hint.previous == backend.previous(stored)


def refreshed(stored: StoredSession[User], generation: int = 1) -> StoredSession[User]:
    session = stored.session.model_copy(update={"generation": generation})
    return StoredSession(session, stored.reference)


async def test_a_reference_is_current_until_the_sid_changes() -> None:
    backend = in_store(MemorySessionStore(clock=CLOCK))
    stored = backend.place(a_session())
    await backend.save(stored)
    lookup = await backend.lookup(cookies_of(backend, stored))
    assert lookup is not None
    assert backend.is_cookie_current(refreshed(lookup.stored))
    moved = lookup.stored.session.model_copy(update={"sid": "another"})
    assert not backend.is_cookie_current(StoredSession(moved, lookup.stored.reference))
    assert not in_cookies().is_cookie_current(StoredSession(a_session()))


async def test_the_store_sees_neither_cookie_nor_reference() -> None:
    store = DictionaryStore()
    backend = in_store(store)
    stored = backend.place(a_session())
    await backend.save(stored)
    (row_id,) = store.rows
    assert stored.reference is not None
    assert stored.reference.secret is not None
    assert row_id == stored.reference.store_id
    assert stored.reference.secret.hex() not in row_id
    assert cookies_of(backend, stored)[NAMES.session] != row_id


async def test_what_a_store_does_not_implement_is_named() -> None:
    backend = in_store(DictionaryStore())
    assert not backend.records_last_use
    for call in (backend.touch(backend.place(a_session()), NOW), backend.sessions_of(*USER)):
        with pytest.raises(ConfigurationError, match="does not implement") as caught:
            await call
        assert caught.value.code is Code.CONFIGURATION_STORE_MISSING
    with pytest.raises(ConfigurationError, match="only a session_store"):
        await in_cookies().sessions_of(*USER)


class Unreachable(DictionaryStore):
    async def get(self, id: str, /) -> OIDCSession[User] | None:
        raise ConnectionError("connection to 10.0.0.1 with password secret refused")

    async def set(self, id: str, session: OIDCSession[User], /) -> None:
        raise ConnectionError

    async def delete(self, id: str, /) -> None:
        raise ConnectionError


async def test_a_store_that_fails_is_an_outage_and_not_a_missing_session() -> None:
    backend = in_store(Unreachable())
    stored = backend.place(a_session())
    for call in (
        backend.lookup(cookies_of(backend, stored)),
        backend.reread(stored),
        backend.save(stored),
        backend.replace(stored),
        backend.end(backend.previous(stored), "signed_out"),
    ):
        with pytest.raises(SessionError) as caught:
            await call
        assert caught.value.code is Code.SESSION_STORE_UNAVAILABLE
        assert caught.value.status == 503
        assert "secret" not in str(caught.value)


async def test_the_row_is_removed_when_the_record_fails_and_the_other_way_round() -> None:
    store, full = DictionaryStore(), MemoryRevocationStore(clock=CLOCK, max_records=0)
    backend = in_store(store, full)
    stored = backend.place(a_session())
    await backend.save(stored)
    with pytest.raises(SessionError) as caught:
        await backend.end(backend.previous(stored), "signed_out")
    assert caught.value.code is Code.SESSION_REVOCATION_UNAVAILABLE
    assert store.rows == {}
    revocations = ListOfRevocations()
    unreachable = in_store(Unreachable(), revocations)
    with pytest.raises(SessionError):
        await unreachable.end(unreachable.previous(stored), "signed_out")
    assert [record.session_id for record in revocations.records] == ["session-1"]


class Counting(MemoryRevocationStore):
    """Counts how many questions are under way."""

    under_way = most = 0

    async def ended_by(self, session: OIDCSession[Any], /) -> EndReason | None:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        return await super().ended_by(session)


async def test_a_users_sessions_are_listed_without_those_that_are_over() -> None:
    revocations, store = Counting(clock=CLOCK), MemorySessionStore[User](clock=CLOCK)
    backend = in_store(store, revocations)
    for number in range(100):
        session = a_session(id=f"session-{number}", created_at=NOW - 100 + number)
        await store.set(str(number), session)
    await backend.revoke(a_record(sid=None, session_id="session-40", made_by="application"))
    listed = await backend.sessions_of(*USER)
    assert [each.id for each in listed] == [f"session-{n}" for n in range(100) if n != 40]
    assert revocations.most == LISTED_TOGETHER
