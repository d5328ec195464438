"""The contract of `Keeper`, held by both ways to keep a session."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pytest

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.codec import SessionCodec
from fastapi_oidc.session.cookie_keeper import CookieKeeper
from fastapi_oidc.session.cookies import CookieNames
from fastapi_oidc.session.keeper import Found, Keeper, Kept
from fastapi_oidc.session.model import OIDCSession, Tokens
from fastapi_oidc.session.reference import ReferenceCookie
from fastapi_oidc.session.sealing import KeyRing
from fastapi_oidc.session.session_cookie import CookieTooLarge, SessionCookie
from fastapi_oidc.session.store_keeper import StoreKeeper
from tests.oidc.session.examples import LIFETIME, NOW, SECRET, User, a_session
from tests.oidc.session.plain_stores import PlainSessionStore

NAMES = CookieNames("oidc", secure=True)
RING = KeyRing([SECRET])
CLOCK = Clock(read=lambda: NOW)


def a_cookie_keeper() -> CookieKeeper[User]:
    return CookieKeeper(
        SessionCookie(SessionCodec(User), RING.sealer("session"), NAMES), NAMES, clock=CLOCK
    )


def a_store_keeper(store: PlainSessionStore) -> StoreKeeper[User]:
    return StoreKeeper(store, ReferenceCookie(RING.sealer("reference"), NAMES), NAMES, clock=CLOCK)


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


class TestCookieKeeper(KeeperContract):
    @pytest.fixture
    def keeper(self) -> Keeper[User]:
        return a_cookie_keeper()

    async def test_a_session_that_does_not_fit_is_said_to_be_too_large(self) -> None:
        keeper = a_cookie_keeper()
        large = a_session(tokens=Tokens(id_token="i", access_token="x" * 100_000))
        with pytest.raises(CookieTooLarge):
            keeper.cookies(keeper.placed(large), NOW)

    async def test_removing_is_done_by_clearing_the_cookie(self) -> None:
        keeper = a_cookie_keeper()
        kept = keeper.placed(a_session())
        await keeper.end(kept, "signed_out")
        assert await keeper.read(cookies_of(keeper, kept)) == Found(kept)


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

    async def test_a_session_from_a_cookie_has_no_place_in_the_store(self) -> None:
        with pytest.raises(ValueError, match="not kept in a store"):
            await a_store_keeper(PlainSessionStore()).reread(Kept(a_session()))


async def test_a_row_of_another_time_is_no_session() -> None:
    """As when the identity's type changed and the store decodes rows itself."""

    class Outdated(PlainSessionStore):
        def get(self, id: str, /) -> OIDCSession[User] | None:
            raise SessionError(Code.SESSION_MALFORMED, "identity.name: missing")

    keeper = a_store_keeper(Outdated())
    assert await keeper.read(cookies_of(keeper, keeper.placed(a_session()))) is None
