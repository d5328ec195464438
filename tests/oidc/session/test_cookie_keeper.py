"""A session that lives in its cookie, with endings or without."""

from __future__ import annotations

import pytest

from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.session.backend import Found, Keeper
from fastapi_oidc.session.memory import MemoryRevocationStore
from fastapi_oidc.session.model import Identity, OIDCSession, Tokens
from fastapi_oidc.session.cookie_backend import CookieTooLarge
from tests.oidc.session.examples import NOW, User, a_record, a_session
from tests.oidc.session.keepers import (
    CLOCK,
    KeeperContract,
    UseContract,
    a_cookie_keeper,
    cookies_of,
)
from tests.oidc.session.plain_stores import PlainRevocationStore


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

    async def test_its_cookie_tells_the_session_itself(self) -> None:
        keeper = a_cookie_keeper()
        kept = keeper.placed(session := a_session())
        told = keeper.told(cookies_of(keeper, kept), session.issuer, session.client_id)
        assert told is not None
        assert told.kept == kept

    async def test_what_a_browser_holds_is_always_replaced(self) -> None:
        keeper = a_cookie_keeper()
        assert await keeper.replace(keeper.placed(a_session()))


class TestCookieKeeperWithEndings(UseContract):
    @pytest.fixture
    def keeper(self) -> Keeper[User]:
        return a_cookie_keeper(MemoryRevocationStore(clock=CLOCK))


async def test_a_session_whose_end_is_recorded_is_not_replaced() -> None:
    keeper = a_cookie_keeper(MemoryRevocationStore(clock=CLOCK))
    kept, other = keeper.placed(a_session()), keeper.placed(a_session(id="session-2"))
    await keeper.end(kept, "signed_out")
    assert not await keeper.replace(kept)
    assert await keeper.replace(other)


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
