"""What a store of an application's own is asked, by what it can do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.endings import RevocationRecord
from fastapi_oidc.session.keeper import Found, Kept
from fastapi_oidc.session.memory import MemoryRevocationStore, MemorySessionStore
from fastapi_oidc.session.model import EndReason, OIDCSession
from fastapi_oidc.session.stores import RevocationStore
from tests.oidc.session.examples import NOW, User, a_record, a_session
from tests.oidc.session.keepers import (
    CLOCK,
    a_store_keeper,
    cookies_of,
)
from tests.oidc.session.plain_stores import PlainSessionStore


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


class WithOwnGet(MemorySessionStore[User]):
    async def get(self, id: str, /) -> OIDCSession[User] | None:
        return None


class WithOwnQuestion(MemorySessionStore[User]):
    async def is_revoked(self, session: OIDCSession[Any], /) -> bool:
        return True


class WithOwnReason(MemorySessionStore[User]):
    async def ended_by(self, session: OIDCSession[Any], /) -> EndReason | None:
        return "signed_out"


@pytest.mark.parametrize(
    ("kind", "gone", "reason"),
    [
        (WithOwnGet, True, None),
        (WithOwnQuestion, False, "ended_by_provider"),
        (WithOwnReason, False, "signed_out"),
    ],
)
async def test_each_method_of_ones_own_is_asked_and_not_what_finds_all_at_once(
    kind: type[MemorySessionStore[User]], gone: bool, reason: EndReason | None
) -> None:
    keeper = a_store_keeper(kind(clock=CLOCK))
    kept = keeper.placed(a_session())
    await keeper.save(kept)
    assert await keeper.reread(kept) == (None if gone else Found(kept, reason))


async def test_a_set_of_ones_own_is_not_gone_round_by_a_replace_that_was_inherited() -> None:
    class Replacing(PlainSessionStore):
        def replace(self, id: str, session: OIDCSession[User], /) -> bool:
            return self.rows.pop(id, None) is not None and not self.rows.update({id: session})

    class Auditing(Replacing):
        def set(self, id: str, session: OIDCSession[User], /) -> None:
            audited.append(session.generation)
            super().set(id, session)

    audited: list[int] = []
    for kind, expected in ((Replacing, []), (Auditing, [0, 1])):
        keeper = a_store_keeper(kind())
        kept = keeper.placed(a_session())
        await keeper.save(kept)
        refreshed = Kept(kept.session.model_copy(update={"generation": 1}), kept.reference)
        assert await keeper.replace(refreshed)
        assert await keeper.reread(kept) == Found(refreshed)
        assert audited == expected


async def test_a_store_that_finds_session_and_end_at_once_need_not_be_async() -> None:
    class Plain(PlainSessionStore):
        records = MemoryRevocationStore(clock=CLOCK)

        async def revoke(self, record: RevocationRecord, /) -> None:
            await self.records.revoke(record)

        def ended_by(self, session: OIDCSession[Any], /) -> EndReason | None:
            return self.records.reason(session)

        def is_revoked(self, session: OIDCSession[Any], /) -> bool:
            raise AssertionError("asked for what was told already")

        def get_with_endings(
            self, id: str, digests: Sequence[str], /
        ) -> tuple[OIDCSession[User] | None, EndReason | None]:
            session = self.get(id)
            return session, None if session is None else self.ended_by(session)

        def keeps_endings_of(self, store: RevocationStore, /) -> bool:
            return store is self

    keeper = a_store_keeper(Plain())
    kept = keeper.placed(a_session())
    assert await keeper.reread(kept) is None
    await keeper.save(kept)
    assert await keeper.reread(kept) == Found(kept)
    await keeper.revoke(a_record(made_by="application"))
    assert await keeper.reread(kept) == Found(kept, "revoked")


@pytest.mark.parametrize("method", ["replace", "touch", "sessions_of"])
async def test_an_ability_that_fails_is_a_store_that_is_down(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def down(*_: object) -> None:
        raise ConnectionError

    failing: MemorySessionStore[User] = MemorySessionStore(clock=CLOCK)
    monkeypatch.setattr(failing, method, down)
    keeper = a_store_keeper(failing)
    kept = keeper.placed(a_session())
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "replace": lambda: keeper.replace(kept),
        "touch": lambda: keeper.touch(kept, NOW),
        "sessions_of": lambda: keeper.sessions_of("https://op.example.com", "app", "alice"),
    }
    with pytest.raises(SessionError) as caught:
        await calls[method]()
    assert caught.value.code is Code.SESSION_STORE_UNAVAILABLE


async def test_a_row_of_another_time_is_no_session() -> None:
    """As when the identity's type changed and the store decodes rows itself."""

    class Outdated(PlainSessionStore):
        def get(self, id: str, /) -> OIDCSession[User] | None:
            raise SessionError(Code.SESSION_MALFORMED, "identity.name: missing")

    keeper = a_store_keeper(Outdated())
    assert await keeper.read(cookies_of(keeper, keeper.placed(a_session()))) is None
