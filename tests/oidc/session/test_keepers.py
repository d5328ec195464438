"""The contract of `Keeper`, held by both ways to keep a session."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from typing import Any

import pytest
from redis.asyncio import Redis

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.session.codec import SessionCodec
from fastapi_oidc.session.cookie_keeper import CookieKeeper
from fastapi_oidc.session.cookies import CookieNames
from fastapi_oidc.session.keeper import Found, Keeper, Kept
from fastapi_oidc.session.memory import MemoryRevocationStore, MemorySessionStore
from fastapi_oidc.session.model import Identity, LoginTransaction, OIDCSession, Tokens
from fastapi_oidc.session.redis import RedisRevocationStore, RedisSessionStore
from fastapi_oidc.session.reference import ReferenceCookie
from fastapi_oidc.session.sealing import KeyRing
from fastapi_oidc.session.session_cookie import CookieTooLarge, SessionCookie
from fastapi_oidc.session.store_keeper import StoreKeeper
from fastapi_oidc.session.stores import RevocationStore, SessionStore
from tests.oidc.session.examples import (
    LIFETIME,
    NOW,
    SECRET,
    User,
    a_record,
    a_session,
    a_transaction,
)
from tests.oidc.session.plain_stores import PlainRevocationStore, PlainSessionStore

NAMES = CookieNames("oidc", secure=True)
RING = KeyRing([SECRET])
CLOCK = Clock(read=lambda: NOW)


def a_cookie_keeper(revocations: RevocationStore | None = None) -> CookieKeeper[User]:
    cookie = SessionCookie(SessionCodec(User), RING.sealer("session"), NAMES)
    return CookieKeeper(cookie, NAMES, clock=CLOCK, revocations=revocations)


def a_store_keeper(
    store: SessionStore[User], revocations: RevocationStore | None = None
) -> StoreKeeper[User]:
    cookie = ReferenceCookie(RING.sealer("reference"), NAMES)
    return StoreKeeper(store, cookie, NAMES, clock=CLOCK, revocations=revocations)


def cookies_of(keeper: Keeper[User], kept: Kept[User]) -> dict[str, str]:
    return {change.name: change.value or "" for change in keeper.cookies(kept, NOW)}


class KeeperContract(ABC):
    @pytest.fixture
    @abstractmethod
    def keeper(self) -> Keeper[User]: ...

    async def test_a_saved_session_is_found_by_its_cookies(self, keeper: Keeper[User]) -> None:
        kept = keeper.placed(a_session())
        await keeper.save(kept)
        assert await keeper.read(cookies_of(keeper, kept)) == Found(kept)
        assert await keeper.reread(kept) == Found(kept)

    @pytest.mark.parametrize("cookies", [{}, {NAMES.session: ""}, {NAMES.session: "garbage"}])
    async def test_other_cookies_lead_to_no_session(
        self, keeper: Keeper[User], cookies: dict[str, str]
    ) -> None:
        assert await keeper.read(cookies) is None
        assert keeper.told(cookies, "https://op.example.com", "app") is None

    async def test_its_cookies_tell_enough_to_end_a_session(self, keeper: Keeper[User]) -> None:
        kept = keeper.placed(session := a_session(id=secrets.token_urlsafe(16)))
        told = keeper.told(cookies_of(keeper, kept), session.issuer, session.client_id)
        assert told is not None
        assert told.previous == keeper.previous(kept)

    async def test_the_cookie_lives_until_the_session_ends(self, keeper: Keeper[User]) -> None:
        (change,) = keeper.cookies(keeper.placed(a_session()), NOW + 100)
        assert change.max_age == LIFETIME - 100
        (change,) = keeper.cookies(keeper.placed(a_session()), NOW + LIFETIME + 100)
        assert change.max_age == 0

    async def test_clearing_deletes_the_cookie(self, keeper: Keeper[User]) -> None:
        assert [(change.name, change.value) for change in keeper.clearing()] == [
            (NAMES.session, None)
        ]

    async def test_nothing_secret_is_in_repr(self, keeper: Keeper[User]) -> None:
        kept = keeper.placed(a_session())
        assert "id.to.ken" not in repr(kept)
        assert kept.reference is None or str(kept.reference.secret) not in repr(kept)


class EndingContract(KeeperContract):
    """A keeper that can record the end of a session."""

    async def test_an_ended_session_is_ended_for_every_copy_of_its_cookie(
        self, keeper: Keeper[User]
    ) -> None:
        assert keeper.keeps_endings
        kept = keeper.placed(a_session())
        await keeper.save(kept)
        copied = cookies_of(keeper, kept)
        await keeper.end(kept, "signed_out")
        found = await keeper.read(copied)
        assert found is None or found == Found(kept, "signed_out")
        assert await keeper.reread(kept) == found
        # Even where a straggler writes its row again.
        await keeper.save(kept)
        assert await keeper.read(copied) == Found(kept, "signed_out")

    async def test_a_session_that_was_read_a_moment_ago_is_over_with_its_record(
        self, keeper: Keeper[User]
    ) -> None:
        kept = keeper.placed(a_session())
        await keeper.save(kept)
        cookies = cookies_of(keeper, kept)
        assert await keeper.read(cookies) == Found(kept)
        await keeper.revoke(a_record(made_by="application"))
        assert await keeper.read(cookies) == Found(kept, "revoked")

    async def test_another_session_of_the_user_goes_on(self, keeper: Keeper[User]) -> None:
        kept, other = keeper.placed(a_session()), keeper.placed(a_session(id="session-2"))
        await keeper.save(other)
        await keeper.end(kept, "signed_out")
        assert await keeper.reread(other) == Found(other)

    async def test_a_login_ends_the_session_that_it_replaces(self, keeper: Keeper[User]) -> None:
        kept = keeper.placed(a_session())
        await keeper.save(kept)
        remembered = a_transaction(previous=keeper.previous(kept)).model_dump_json()
        previous = LoginTransaction.model_validate_json(remembered).previous
        assert previous is not None
        await keeper.end_previous(previous, "signed_out")
        found = await keeper.reread(kept)
        assert found is None or found.ended == "signed_out"

    async def test_a_record_ends_what_it_covers(self, keeper: Keeper[User]) -> None:
        kept, other = keeper.placed(a_session()), keeper.placed(a_session(sub="bob"))
        for each in (kept, other):
            await keeper.save(each)
        await keeper.revoke(a_record(sid=None, sub="alice", made_by="application"))
        assert await keeper.read(cookies_of(keeper, kept)) == Found(kept, "revoked")
        assert await keeper.read(cookies_of(keeper, other)) == Found(other)


class UseContract(EndingContract):
    """A keeper that can also remember when a session was last used."""

    async def test_a_touched_session_was_seen_then(self, keeper: Keeper[User]) -> None:
        assert keeper.keeps_use
        kept = keeper.placed(a_session())
        await keeper.save(kept)
        touched = await keeper.touch(kept, NOW + 60)
        assert touched.session.last_seen_at == NOW + 60
        assert await keeper.read(cookies_of(keeper, touched)) == Found(touched)


class TestCookieKeeper(KeeperContract):
    @pytest.fixture
    def keeper(self) -> Keeper[User]:
        return a_cookie_keeper()

    async def test_a_session_that_does_not_fit_is_said_to_be_too_large(self) -> None:
        keeper = a_cookie_keeper()
        large = a_session(tokens=Tokens(id_token="i", access_token="x" * 100_000))
        with pytest.raises(CookieTooLarge):
            keeper.cookies(keeper.placed(large), NOW)

    async def test_without_a_store_the_end_is_that_of_the_cookie(self) -> None:
        keeper = a_cookie_keeper()
        kept = keeper.placed(a_session())
        await keeper.end(kept, "signed_out")
        assert await keeper.read(cookies_of(keeper, kept)) == Found(kept)

    async def test_without_a_store_no_record_can_be_kept(self) -> None:
        keeper = a_cookie_keeper()
        assert not keeper.keeps_endings
        assert not keeper.lists_sessions
        for call in (keeper.revoke(a_record()), keeper.sessions_of("issuer", "app", "alice")):
            with pytest.raises(ConfigurationError) as caught:
                await call
            assert caught.value.code is Code.CONFIGURATION_STORE_MISSING

    async def test_what_a_browser_holds_is_always_replaced(self) -> None:
        keeper = a_cookie_keeper()
        assert await keeper.replace(keeper.placed(a_session()))


class TestCookieKeeperWithEndings(UseContract):
    @pytest.fixture
    def keeper(self) -> Keeper[User]:
        return a_cookie_keeper(MemoryRevocationStore(clock=CLOCK))


class TestCookieKeeperWithAStoreOf010(KeeperContract):
    @pytest.fixture
    def keeper(self) -> Keeper[User]:
        return a_cookie_keeper(PlainRevocationStore())

    async def test_it_never_gets_a_record_that_it_would_misread(self) -> None:
        """Without `sid` and `sub` it would cover everybody."""
        revocations = PlainRevocationStore()
        keeper = a_cookie_keeper(revocations)
        assert not keeper.keeps_endings
        await keeper.end(keeper.placed(a_session()), "signed_out")
        with pytest.raises(ConfigurationError):
            await keeper.revoke(a_record(sid=None, session_id="session-1"))
        assert revocations.records == []

    async def test_it_is_asked_as_ever(self) -> None:
        keeper = a_cookie_keeper(PlainRevocationStore())
        await keeper.revoke(a_record())
        kept = keeper.placed(a_session())
        assert await keeper.reread(kept) == Found(kept, "ended_by_provider")

    async def test_one_that_fails_is_no_session_that_goes_on(self) -> None:
        class Failing(PlainRevocationStore):
            def is_revoked(self, session: OIDCSession[Identity], /) -> bool:
                raise ConnectionError

        keeper = a_cookie_keeper(Failing())
        with pytest.raises(SessionError) as caught:
            await keeper.reread(keeper.placed(a_session()))
        assert caught.value.code is Code.SESSION_REVOCATION_UNAVAILABLE


class UnavailableStore(PlainSessionStore):
    def get(self, id: str, /) -> OIDCSession[User] | None:
        raise ConnectionError

    def set(self, id: str, session: OIDCSession[User], /) -> None:
        raise ConnectionError

    def delete(self, id: str, /) -> None:
        raise ConnectionError


class TestStoreKeeper(KeeperContract):
    @pytest.fixture
    def keeper(self) -> Keeper[User]:
        return a_store_keeper(PlainSessionStore())

    async def test_every_login_has_a_place_of_its_own(self) -> None:
        store = PlainSessionStore()
        keeper = a_store_keeper(store)
        places = [keeper.placed(a_session()) for _ in range(2)]
        for kept in places:
            await keeper.save(kept)
        assert len(store.rows) == 2

    async def test_the_store_sees_neither_cookie_nor_reference(self) -> None:
        store = PlainSessionStore()
        keeper = a_store_keeper(store)
        kept = keeper.placed(a_session())
        await keeper.save(kept)
        (row_id,) = store.rows
        assert kept.reference is not None
        assert row_id == kept.reference.store_id
        assert cookies_of(keeper, kept)[NAMES.session] != row_id

    async def test_a_removed_session_is_not_found(self) -> None:
        keeper = a_store_keeper(PlainSessionStore())
        kept = keeper.placed(a_session())
        await keeper.save(kept)
        await keeper.end(kept, "signed_out")
        assert await keeper.read(cookies_of(keeper, kept)) is None
        assert await keeper.reread(kept) is None

    async def test_what_another_process_saved_is_read_again(self) -> None:
        store = PlainSessionStore()
        keeper, elsewhere = a_store_keeper(store), a_store_keeper(store)
        kept = keeper.placed(a_session())
        await keeper.save(kept)
        refreshed = Kept(a_session().model_copy(update={"generation": 1}), kept.reference)
        await elsewhere.save(refreshed)
        assert await keeper.reread(kept) == Found(refreshed)

    async def test_a_store_that_fails_is_no_missing_session(self) -> None:
        keeper = a_store_keeper(UnavailableStore())
        kept = keeper.placed(a_session())
        calls = (keeper.read(cookies_of(keeper, kept)), keeper.reread(kept))
        for call in (*calls, keeper.save(kept), keeper.end(kept, "signed_out")):
            with pytest.raises(SessionError) as caught:
                await call
            assert caught.value.code is Code.SESSION_STORE_UNAVAILABLE

    async def test_a_row_is_replaced_only_where_there_is_one(self) -> None:
        keeper = a_store_keeper(PlainSessionStore())
        kept = keeper.placed(a_session())
        assert not await keeper.replace(kept)
        await keeper.save(kept)
        assert await keeper.replace(kept)

    async def test_what_a_store_of_0_1_0_cannot_do_is_said(self) -> None:
        keeper = a_store_keeper(PlainSessionStore())
        able = (keeper.keeps_endings, keeper.keeps_use, keeper.lists_sessions)
        assert able == (False, False, False)
        kept = keeper.placed(a_session())
        for call in (
            keeper.touch(kept, NOW),
            keeper.sessions_of("issuer", "app", "alice"),
            keeper.revoke(a_record()),
        ):
            with pytest.raises(ConfigurationError) as caught:
                await call
            assert caught.value.code is Code.CONFIGURATION_STORE_MISSING

    async def test_a_session_from_a_cookie_has_no_place_in_the_store(self) -> None:
        with pytest.raises(ValueError, match="not kept in a store"):
            await a_store_keeper(PlainSessionStore()).reread(Kept(a_session()))


class TestStoreKeeperInMemory(UseContract):
    @pytest.fixture
    def keeper(self) -> Keeper[User]:
        return a_store_keeper(MemorySessionStore(clock=CLOCK))

    async def test_a_users_sessions_are_those_that_go_on(self) -> None:
        keeper = a_store_keeper(MemorySessionStore(clock=CLOCK))
        places = [keeper.placed(a_session(id=id)) for id in ("one", "two", "three")]
        for kept in places:
            await keeper.save(kept)
        await keeper.end(places[0], "signed_out")
        await keeper.revoke(a_record(sid=None, session_id="two", made_by="application"))
        listed = await keeper.sessions_of("https://op.example.com", "app", "alice")
        assert [session.id for session in listed] == ["three"]


class TestStoreKeeperWithEndingsElsewhere(EndingContract):
    @pytest.fixture
    def keeper(self) -> Keeper[User]:
        return a_store_keeper(PlainSessionStore(), MemoryRevocationStore(clock=CLOCK))

    async def test_the_row_is_removed_although_the_record_fails(self) -> None:
        store, full = PlainSessionStore(), MemoryRevocationStore(clock=CLOCK, max_records=0)
        keeper = a_store_keeper(store, full)
        kept = keeper.placed(a_session())
        await keeper.save(kept)
        with pytest.raises(SessionError) as caught:
            await keeper.end(kept, "signed_out")
        assert caught.value.code is Code.SESSION_REVOCATION_UNAVAILABLE
        assert store.rows == {}

    async def test_the_end_is_recorded_although_the_row_stays(self) -> None:
        class Undeletable(PlainSessionStore):
            def delete(self, id: str, /) -> None:
                raise ConnectionError

        keeper = a_store_keeper(Undeletable(), MemoryRevocationStore(clock=CLOCK))
        kept = keeper.placed(a_session())
        await keeper.save(kept)
        with pytest.raises(SessionError) as caught:
            await keeper.end(kept, "signed_out")
        assert caught.value.code is Code.SESSION_STORE_UNAVAILABLE
        assert await keeper.reread(kept) == Found(kept, "signed_out")


class TestStoreKeeperOnRedis(UseContract):
    @pytest.fixture(params=["its own endings", "a store beside it"])
    def keeper(self, request: pytest.FixtureRequest, redis: Redis, prefix: str) -> Keeper[User]:
        store = RedisSessionStore(redis, User, prefix=prefix)
        if request.param == "its own endings":
            return a_store_keeper(store)
        return a_store_keeper(store, RedisRevocationStore(redis, prefix=prefix))

    async def test_a_request_takes_one_command(self, keeper: Keeper[User], redis: Redis) -> None:
        kept = keeper.placed(a_session())
        await keeper.save(kept)
        cookies = cookies_of(keeper, kept)
        before = (await redis.info("stats"))["total_commands_processed"]
        assert await keeper.read(cookies) == Found(kept)
        after = (await redis.info("stats"))["total_commands_processed"]
        assert after - before == 2  # one of them asks for the statistics


async def test_a_store_written_before_the_abilities_is_asked_by_its_own_methods() -> None:
    class Watching(MemorySessionStore[User]):
        is_closed = False

        async def get(self, id: str, /) -> OIDCSession[User] | None:
            return None if self.is_closed else await super().get(id)

        async def is_revoked(self, session: OIDCSession[Any], /) -> bool:
            return session.sub == "bob" or await super().is_revoked(session)

    store = Watching(clock=CLOCK)
    keeper = a_store_keeper(store)
    kept, other = keeper.placed(a_session()), keeper.placed(a_session(sub="bob"))
    for each in (kept, other):
        await keeper.save(each)
    assert await keeper.reread(kept) == Found(kept)
    assert await keeper.reread(other) == Found(other, "ended_by_provider")
    store.is_closed = True
    assert await keeper.reread(kept) is None


async def test_closing_a_keeper_closes_what_its_stores_opened(redis_url: str, prefix: str) -> None:
    store = RedisSessionStore.from_url(redis_url, User, prefix=prefix)
    revocations = RedisRevocationStore.from_url(redis_url, prefix=prefix)
    in_store, in_cookie = a_store_keeper(store, revocations), a_cookie_keeper(revocations)
    kept = in_store.placed(a_session())
    await in_store.save(kept)
    await in_cookie.revoke(a_record())
    # Connections that stay open are warnings, and warnings are errors.
    await in_store.aclose()
    assert await in_cookie.reread(kept) == Found(kept, "ended_by_provider")
    await in_cookie.aclose()
    await a_store_keeper(PlainSessionStore()).aclose()


async def test_a_row_of_another_time_is_no_session() -> None:
    """As when the identity's type changed and the store decodes rows itself."""

    class Outdated(PlainSessionStore):
        def get(self, id: str, /) -> OIDCSession[User] | None:
            raise SessionError(Code.SESSION_MALFORMED, "identity.name: missing")

    keeper = a_store_keeper(Outdated())
    assert await keeper.read(cookies_of(keeper, keeper.placed(a_session()))) is None
