"""A session that lives in a store: in memory, or in one of an application's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.session.backend import Found, Keeper, StoredSession
from fastapi_oidc.session.memory import MemoryRevocationStore, MemorySessionStore
from fastapi_oidc.session.model import OIDCSession
from fastapi_oidc.session.stores import SessionStore
from tests.oidc.session.examples import NOW, User, a_record, a_session
from tests.oidc.session.keepers import (
    CLOCK,
    NAMES,
    EndingContract,
    KeeperContract,
    UseContract,
    a_store_keeper,
    cookies_of,
)
from tests.oidc.session.plain_stores import PlainSessionStore


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
        refreshed = StoredSession(a_session().model_copy(update={"generation": 1}), kept.reference)
        await elsewhere.save(refreshed)
        assert await keeper.reread(kept) == Found(refreshed)

    async def test_a_store_that_fails_is_no_missing_session(self) -> None:
        keeper = a_store_keeper(UnavailableStore())
        kept = keeper.placed(a_session())
        calls = (keeper.read(cookies_of(keeper, kept)), keeper.reread(kept))
        for call in (
            *calls,
            keeper.save(kept),
            keeper.replace(kept),
            keeper.end(kept, "signed_out"),
        ):
            with pytest.raises(SessionError) as caught:
                await call
            assert caught.value.code is Code.SESSION_STORE_UNAVAILABLE

    @pytest.mark.parametrize("kind", [PlainSessionStore, MemorySessionStore])
    async def test_a_row_is_replaced_only_where_there_is_one(
        self, kind: Callable[[], SessionStore[User]]
    ) -> None:
        keeper = a_store_keeper(kind())
        kept = keeper.placed(a_session(expires_at=2**40))
        assert not await keeper.replace(kept)
        assert await keeper.reread(kept) is None
        await keeper.save(kept)
        refreshed = StoredSession(kept.session.model_copy(update={"generation": 1}), kept.reference)
        assert await keeper.replace(refreshed)
        assert await keeper.reread(kept) == Found(refreshed)

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
            await a_store_keeper(PlainSessionStore()).reread(StoredSession(a_session()))


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
