"""The contract of `Keeper`, held by both ways to keep a session."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod

import pytest

from fastapi_oidc.clock import Clock
from fastapi_oidc.session.codec import SessionCodec
from fastapi_oidc.session.cookie_keeper import CookieKeeper
from fastapi_oidc.session.cookies import CookieNames
from fastapi_oidc.session.keeper import Found, Keeper, Kept
from fastapi_oidc.session.model import LoginTransaction
from fastapi_oidc.session.reference import ReferenceCookie
from fastapi_oidc.session.sealing import KeyRing
from fastapi_oidc.session.session_cookie import SessionCookie
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
        (change,) = keeper.clearing()
        assert (change.name, change.value, change.max_age) == (NAMES.session, None, 0)

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
